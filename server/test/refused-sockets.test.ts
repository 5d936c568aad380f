// Requests for WebSockets that the management API refuses: their connections end, whatever the
// client still sends.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { test, type TestContext } from "node:test";
import { fastify } from "fastify";
import { takeExecSocket } from "#api/exec-upgrade.ts";
import { LogSockets } from "#api/log-sockets.ts";
import { systemClock as clock } from "#lib/clock.ts";
import { silentLog as log } from "#lib/log.ts";
import { until } from "#test/support/until.ts";

/** More than a socket takes before somebody reads it. */
const unread = "x".repeat(4_000_000);

async function refuseAll(t: TestContext) {
  const api = fastify({ logger: false });
  api.get("/*", (_request, reply) => reply.code(401).send({ message: "No token was sent." }));
  await api.ready();
  const sockets = new LogSockets({
    api,
    builds: { appOf: () => Promise.resolve(null) },
    clock,
    log,
  });
  const taken: Duplex[] = [];
  const server = createServer().on("upgrade", (request, socket, firstBytes) => {
    taken.push(socket);
    if (request.url?.startsWith("/v2/") === true)
      takeExecSocket(api, { request, socket, firstBytes });
    else sockets.take(request, socket, firstBytes);
  });
  t.after(async () => {
    for (const socket of taken) socket.destroy();
    server.close();
    await api.close();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { taken, port: (server.address() as AddressInfo).port };
}

for (const path of [
  "/v2/projects/p/apps/a/containers/c/exec?command=sh",
  "/ws-logs?projectID=p&appID=a",
]) {
  test(`a connection ends that was refused at ${path.split("?", 1)[0]}`, async (t) => {
    const { taken, port } = await refuseAll(t);
    let text = "";
    for (const more of ["", unread]) {
      const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      t.after(() => client.destroy());
      client.on("error", () => undefined).on("data", (chunk: Buffer) => (text += chunk.toString()));
      client.write(
        `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      );
      client.write(more);
      const count = more === "" ? 1 : 2;
      await until(
        "the platform has closed it",
        () => taken.length === count && taken.every((one) => one.closed),
      );
    }
    assert.match(text, /^HTTP\/1\.1 401 [^]*No token was sent/);
  });
}
