// Probes against real sockets.
import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import {
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { networkProbe } from "./probe.ts";

/** Listens on a free port until the test is over. */
async function listen(t: TestContext, server: Server): Promise<{ host: string; port: number }> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
}

async function ask(t: TestContext, endpoint: string, listener: RequestListener) {
  const address = await listen(t, createServer(listener));
  return networkProbe(systemClock)({ address, endpoint, timeoutMs: 5000, signal: t.signal });
}

test("only a 200 is good, also with an endless body", async (t) => {
  assert.deepEqual(
    await ask(t, "/ready?deep=1", (request, response) => response.end(request.url)),
    { ok: true },
  );
  assert.deepEqual(await ask(t, "/", (_, response) => response.writeHead(200).write("and so on")), {
    ok: true,
  });
  const moved = await ask(t, "/ready", (_, response) => response.writeHead(204).end());
  assert.deepEqual(moved, { ok: false, reason: "GET /ready answered 204 instead of 200." });
});

test("a TCP probe needs a listener and nothing else", async (t) => {
  const address = await listen(t, createTcpServer());
  const probe = networkProbe(systemClock);
  assert.deepEqual(await probe({ address, endpoint: "", timeoutMs: 5000, signal: t.signal }), {
    ok: true,
  });
});

test("a refused connection is told as such", async (t) => {
  const server = createTcpServer();
  const address = await listen(t, server);
  await new Promise((resolve) => server.close(resolve));
  const probe = networkProbe(systemClock);
  const tcp = await probe({ address, endpoint: "", timeoutMs: 5000, signal: t.signal });
  assert.deepEqual(tcp, {
    ok: false,
    reason: `Nothing listens on port ${address.port}: the app must listen on the port in its settings (port), or, if that is 0, on the one in its environment variable PORT.`,
  });
  const http = await probe({ address, endpoint: "/ready", timeoutMs: 5000, signal: t.signal });
  assert.deepEqual(http, { ok: false, reason: tcp.ok ? "" : tcp.reason });
});

test("a server that accepts and never answers is given up on at the deadline", async (t) => {
  const clock = new VirtualClock();
  let isAsked = false;
  const server = createTcpServer((socket) => socket.on("data", () => (isAsked = true)));
  const address = await listen(t, server);
  const answer = networkProbe(clock)({
    address,
    endpoint: "/ready",
    timeoutMs: 2000,
    signal: t.signal,
  });
  await until("the question has arrived", () => isAsked);
  await clock.advance(2000);
  assert.deepEqual(await answer, {
    ok: false,
    reason: "GET /ready was not answered within 2 seconds.",
  });
});

test("a socket that is not there yet is asked as soon as it is", async (t) => {
  const path = join(temporaryFolder(t, "probe"), "app.sock");
  const clock = new VirtualClock();
  const answer = networkProbe(clock)({
    address: { path },
    endpoint: "/ready",
    timeoutMs: 2000,
    signal: t.signal,
  });
  await new Promise((resolve) => setImmediate(resolve));
  const server = createServer((_, response) => response.end());
  server.listen(path);
  t.after(() => server.close());
  assert.deepEqual(await answer, { ok: true });
});

test("a socket that does not come is waited for until the deadline", async (t) => {
  const path = join(temporaryFolder(t, "probe"), "app.sock");
  const clock = new VirtualClock();
  const answer = networkProbe(clock)({
    address: { path },
    endpoint: "/ready",
    timeoutMs: 2000,
    signal: t.signal,
  });
  await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(2000);
  assert.deepEqual(await answer, {
    ok: false,
    reason: "GET /ready was not answered within 2 seconds.",
  });
});
