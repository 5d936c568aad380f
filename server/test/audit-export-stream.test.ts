// How an export goes out: made as it is taken, cut off when it is not, broken off visibly, and only
// so many at once.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, get, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { fastify } from "fastify";
import { auditExportHandlers } from "#api/audit-export.ts";
import type { ApiCall, Handler } from "#api/call.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import { silentLog } from "#lib/log.ts";
import "#test/support/leftovers.ts";
import { until } from "#test/support/until.ts";

const part = "x".repeat(1_000_000);

/** Answers any project with the parts; returns how to ask. */
async function serve(
  t: TestContext,
  parts: () => AsyncGenerator<string>,
  {
    clock = systemClock,
    admit = async () => undefined,
  }: { clock?: Clock; admit?: () => Promise<void> } = {},
) {
  const stopping = new AbortController();
  const handlers: { exportAuditLog: Handler } = auditExportHandlers({
    clock,
    log: silentLog,
    stopping: stopping.signal,
    ownerKeyOf: (projectId) => Promise.resolve(projectId),
    auditExport: { begin: async () => parts() },
  });
  const api = fastify({ logger: false });
  api.get("/:project_id", async (request, reply) => {
    const call = {
      request,
      reply,
      by: {},
      query: { format: "ndjson" },
      admit,
    } as unknown as ApiCall;
    try {
      return (await handlers.exportAuditLog(call)) ?? reply;
    } catch (error) {
      return reply
        .code(error instanceof Fault && error.code === "rate_limited" ? 429 : 500)
        .send(String(error));
    }
  });
  await api.ready();
  const server = createServer((request, response) => api.routing(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  const { port } = server.address() as AddressInfo;
  const ask = async (project: string): Promise<IncomingMessage> => {
    const request = get({ port, host: "127.0.0.1", path: `/${project}`, agent: false });
    request.on("error", () => undefined);
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.on("error", () => undefined);
    t.after(() => response.destroy());
    return response;
  };
  return { ask, stopping };
}

/** Takes everything; true when it ended as it should. */
async function take(response: IncomingMessage): Promise<boolean> {
  response.resume();
  if (!response.closed) await new Promise((resolve) => response.once("close", resolve));
  return response.complete;
}

test("parts are made as they are taken: whoever takes none costs some of them, and is cut off", async (t) => {
  let cutOff: (() => void) | null = null;
  const clock: Clock = {
    ...systemClock,
    after(_ms, run) {
      cutOff = run;
      return () => (cutOff = null);
    },
  };
  let made = 0;
  let ended = false;
  const { ask } = await serve(
    t,
    async function* () {
      try {
        for (; made < 1_000; made++) yield part;
      } finally {
        ended = true;
      }
    },
    { clock },
  );
  const response = await ask("p-1");
  response.pause();
  let before = -1;
  // It waits for the client once two looks in a row find the same, and a timer.
  await until("no more is made", async () => {
    const isStill = made > 0 && made === before && cutOff !== null;
    before = made;
    return isStill;
  });
  assert.ok(made < 50, `${made} MB were made for a client that takes nothing`);
  (cutOff as (() => void) | null)?.();
  assert.equal(await take(response), false, "it is cut off, not ended");
  await until("the reading ends too", () => ended);
  assert.ok(made < 50);
});

test("one that is taken comes whole", async (t) => {
  const { ask } = await serve(t, async function* () {
    for (let count = 0; count < 20; count++) yield part;
  });
  const response = await ask("p-1");
  let bytes = 0;
  response.on("data", (chunk: Buffer) => (bytes += chunk.length));
  assert.equal(await take(response), true);
  assert.equal(bytes, 20 * part.length);
});

test("whoever loses the right to read while it is under way gets no more of it", async (t) => {
  let mayRead = true;
  const admit = async (): Promise<void> => {
    if (!mayRead) throw new Fault("unauthorized", "The token was revoked.");
  };
  let ended = false;
  const { ask } = await serve(
    t,
    async function* () {
      try {
        for (;;) yield part;
      } finally {
        ended = true;
      }
    },
    { admit },
  );
  const response = await ask("p-1");
  response.once("data", () => (mayRead = false));
  assert.equal(await take(response), false, "it is cut off, not ended");
  await until("the reading ends too", () => ended);
});

test("one that breaks, or is broken off by the platform's end, does not look whole", async (t) => {
  let isTaken = false;
  const { ask } = await serve(t, async function* () {
    yield part;
    await until("the client has something", () => isTaken);
    throw new Error("the database is gone");
  });
  const broken = await ask("p-1");
  broken.once("data", () => (isTaken = true));
  assert.equal(await take(broken), false);
  const endless = await serve(t, async function* () {
    for (;;) yield part;
  });
  const response = await endless.ask("p-1");
  endless.stopping.abort(new Error("stop"));
  assert.equal(await take(response), false);
});

test("one that fails before its first part is answered as a failure", async (t) => {
  const { ask } = await serve(t, async function* () {
    if (t.name !== "") throw new Error("the database is gone");
    yield part;
  });
  assert.equal((await ask("p-1")).statusCode, 500);
});

test("a project has two at once, all projects six; a place is free again when one ends", async (t) => {
  const { ask } = await serve(t, async function* () {
    for (;;) yield part;
  });
  const open = await Promise.all(["p-1", "p-1", "p-2", "p-2", "p-3"].map(ask));
  assert.deepEqual(
    open.map(({ statusCode }) => statusCode),
    [200, 200, 200, 200, 200],
  );
  assert.equal((await ask("p-1")).statusCode, 429);
  const last = await ask("p-3");
  assert.deepEqual([last.statusCode, (await ask("p-4")).statusCode], [200, 429]);
  last.destroy();
  await until("the place is free", async () => (await ask("p-4")).statusCode === 200);
});
