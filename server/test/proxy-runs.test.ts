// Calls of async runs on the road of plain calls: line, limits and choice of the replica hold for
// them too, and nothing is sent before the run's keeper says so. Calls that an earlier process sent
// are counted like its own.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import type { ReplicaId } from "#lib/ids.ts";
import {
  answerWith,
  httpReplica,
  openProxyBed,
  rawReplica,
  replicaIdOf,
} from "./support/proxy-bed.ts";
import { assertEnded, inShort, waitingReplica, WatchedRun } from "./support/run-watcher.ts";
import { until } from "./support/until.ts";

test("a run's call reaches the replica as it was accepted, and its answer is gathered whole", async (t) => {
  const bed = await openProxyBed(t);
  const seen: Record<string, unknown>[] = [];
  bed.setReplicas(
    await httpReplica(t, async (request, response) => {
      const { method, url, rawHeaders } = request;
      const body = Buffer.concat((await request.toArray()) as Buffer[]).toString();
      seen.push({ method, url, rawHeaders, body });
      response.writeHead(201, { "Content-Type": "text/x; charset=é" });
      response.write("one,");
      response.end("two");
    }),
  );
  const run = new WatchedRun(bed, {
    path: "/run/x?y=1",
    lines: "Host: test\r\nx-one:  1\r\n",
    body: Buffer.from("[1]"),
  });
  assert.deepEqual(await run.ended(), {
    kind: "answered",
    status: 201,
    contentType: "text/x; charset=é",
    contentFields: null,
    body: Buffer.from("one,two"),
    bodyBytes: 7,
  });
  const rawHeaders = [
    "Host",
    "test",
    "x-one",
    "1",
    "X-Request-Id",
    run.request.runId,
    "Content-Length",
    "3",
  ];
  assert.deepEqual(seen, [{ method: "POST", url: "/run/x?y=1", rawHeaders, body: "[1]" }]);
  assert.deepEqual(
    run.starts.map((replica) => replica.replicaId),
    bed.view.ready(bed.appId).map((replica) => replica.replicaId),
  );
  await assertEnded(bed, run, "201 one,two");
  assert.equal(bed.finished.length, 0, "the records of plain calls know nothing of runs");
  assert.deepEqual(
    Array.from(bed.proxy.apps.meters(), ({ answers }) => answers[1]),
    [1],
    "but metrics count it",
  );
});

test("bodies of every size arrive byte for byte, and an empty one is announced where the method has one", async (t) => {
  const bed = await openProxyBed(t);
  bed.setReplicas(
    await httpReplica(t, async (request, response) => {
      const body = Buffer.concat((await request.toArray()) as Buffer[]);
      const hash = createHash("sha256").update(body).digest("hex");
      response.end(`${request.headers["content-length"] ?? "none"} ${hash}`);
    }),
  );
  for (const [method, size] of [
    ["POST", 0],
    ["GET", 0],
    ["PUT", 1],
    ["POST", 8_192],
    ["POST", 8_193],
    ["POST", 5_000_000],
  ] as const) {
    const body = Buffer.alloc(size, Buffer.from([0, 255, 13, 10, 128, 65]));
    const hash = createHash("sha256").update(body).digest("hex");
    const run = new WatchedRun(bed, { method, body });
    const told = size === 0 && method === "GET" ? "none" : String(size);
    assert.equal(inShort(await run.ended()), `200 ${told} ${hash}`, `${method} ${size}`);
  }
});

test("of an answer that is longer than the limit only its length is told, of one as long as the limit all", async (t) => {
  const bed = await openProxyBed(t);
  bed.setReplicas(
    await httpReplica(t, (request, response) => {
      if (request.url === "/chunks") for (let count = 0; count < 7; count++) response.write("x");
      response.end("yyy");
    }),
  );
  const answerBytesMax = 9;
  assert.equal(
    inShort(await new WatchedRun(bed, { path: "/chunks", answerBytesMax }).ended()),
    "200 10 bytes",
  );
  assert.equal(
    inShort(await new WatchedRun(bed, { path: "/chunks", answerBytesMax: 10 }).ended()),
    "200 xxxxxxxyyy",
  );
  assert.equal(
    inShort(await new WatchedRun(bed, { path: "/", answerBytesMax: 3 }).ended()),
    "200 yyy",
  );
  assert.equal(
    inShort(await new WatchedRun(bed, { path: "/", answerBytesMax: 2 }).ended()),
    "200 3 bytes",
  );
});

test("nothing more of an answer is read until its keeper has room, and then all of it comes", async (t) => {
  const bed = await openProxyBed(t);
  let sentBytes = 0;
  const whole = 20_000_000;
  bed.setReplicas(
    await httpReplica(t, (request, response) => {
      response.writeHead(200, { "Content-Length": whole });
      const piece = Buffer.alloc(100_000, 120);
      const send = (): void => {
        let hasRoom = true;
        while (hasRoom && sentBytes < whole) {
          sentBytes += piece.length;
          hasRoom = response.write(piece);
        }
        if (sentBytes < whole) response.once("drain", send);
        else response.end();
      };
      send();
      request.resume();
    }),
  );
  const room = Promise.withResolvers<void>();
  const toldBytes: number[] = [];
  const run = new WatchedRun(bed, { answerBytesMax: whole });
  run.mayGrow = (bytes) => (toldBytes.push(bytes) === 1 ? room.promise : null);
  let before = -1;
  await until("the replica can send no more", () => {
    const isStill = sentBytes === before && toldBytes.length > 0;
    before = sentBytes;
    return isStill;
  });
  assert.equal(toldBytes.length, 1);
  assert.ok(sentBytes < whole, `${sentBytes} bytes are on their way`);
  room.resolve();
  const ending = await run.ended();
  assert.deepEqual(
    [ending.kind, ending.kind === "answered" && ending.body?.length],
    ["answered", whole],
  );
  assert.equal(toldBytes.at(-1), whole);
});

test("an answer in a hundred thousand pieces is the same as in one", async (t) => {
  const bed = await openProxyBed(t);
  const count = 100_000;
  bed.setReplicas(
    await rawReplica(t, (socket) => {
      answerWith(
        socket,
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(count)}0\r\n\r\n`,
      );
    }),
  );
  const ending = await new WatchedRun(bed, { method: "GET", body: Buffer.alloc(0) }).ended();
  assert.equal(inShort(ending), `200 ${"x".repeat(count)}`);
});

test("runs and plain calls share the replica's places and the line, first come, first served", async (t) => {
  const bed = await openProxyBed(t, { settings: { replicaConcurrency: 1 } });
  const { port, answers } = await waitingReplica(t);
  bed.setReplicas(port);
  const first = bed.call("/run");
  await until("the plain call runs", () => answers.length === 1);
  const run = new WatchedRun(bed);
  const last = bed.call("/run");
  await until("two wait", () => bed.proxy.apps.demandOf(bed.appId).waiting === 2);
  assert.equal(run.starts.length, 0, "its keeper is asked only when there is a place");
  answers[0]?.end("first");
  await until("the run runs", () => answers.length === 2);
  assert.equal(run.starts.length, 1);
  assert.deepEqual(
    { ...bed.proxy.apps.demandOf(bed.appId), lastActiveAtMs: 0, runMs: 0 },
    { running: 1, waiting: 1, lastActiveAtMs: 0, receivedTotal: 3, runMs: 0 },
  );
  answers[1]?.end("second");
  assert.equal(inShort(await run.ended()), "200 second");
  await until("the last runs", () => answers.length === 3);
  answers[2]?.end("third");
  assert.deepEqual(
    await Promise.all([first, last].map(async (call) => await (await call).text())),
    ["first", "third"],
  );
});

test("nothing is sent before the keeper has agreed, and its place is taken meanwhile", async (t) => {
  const bed = await openProxyBed(t, { settings: { replicaConcurrency: 1 } });
  let connections = 0;
  const port = await rawReplica(t, (socket) => {
    connections++;
    answerWith(socket, "HTTP/1.1 204 No Content\r\n\r\n");
  });
  bed.setReplicas(port);
  const decision = Promise.withResolvers<boolean>();
  const run = new WatchedRun(bed, { method: "GET", body: Buffer.alloc(0) }, () => decision.promise);
  await until("the keeper is asked", () => run.starts.length === 1);
  assert.equal(bed.proxy.apps.running(replicaIdOf(port)), 1);
  const other = new WatchedRun(bed);
  assert.equal(bed.proxy.apps.demandOf(bed.appId).waiting, 1);
  assert.equal(connections, 0);
  other.handle.withdraw();
  decision.resolve(true);
  await assertEnded(bed, run, "204 ");
  assert.equal(connections, 1);
});

test("a keeper that does not agree gets its run back, and the place goes to the next", async (t) => {
  const bed = await openProxyBed(t, { settings: { replicaConcurrency: 1 } });
  const paths: (string | undefined)[] = [];
  bed.setReplicas(
    await httpReplica(t, (request, response) => {
      paths.push(request.url);
      response.end();
    }),
  );
  const refused = new WatchedRun(bed, { path: "/refused" }, () => Promise.resolve(false));
  const next = new WatchedRun(bed, { path: "/next" });
  assert.equal(inShort(await refused.ended()), "withdrawn");
  await assertEnded(bed, next, "200 ");
  assert.deepEqual(paths, ["/next"]);
});

test("a keeper that fails ends the call without anything sent", async (t) => {
  const bed = await openProxyBed(t);
  let calls = 0;
  bed.setReplicas(await httpReplica(t, (_request, response) => response.end(String(++calls))));
  const rejecting = new WatchedRun(bed, {}, () => Promise.reject(new Error("no database")));
  await assertEnded(bed, rejecting, "internal not sent");
  const throwing = new WatchedRun(bed, {}, () => {
    throw new Error("a bug");
  });
  await assertEnded(bed, throwing, "internal not sent");
  assert.equal(calls, 0);
});

test("calls that an earlier process sent count before and after their replica is known, once", async (t) => {
  const bed = await openProxyBed(t, { settings: { replicaConcurrency: 2 } });
  const { port, answers } = await waitingReplica(t);
  const replicaId = replicaIdOf(port);
  const letGo = bed.proxy.apps.hold(bed.appId, replicaId);
  const letGoOther = bed.proxy.apps.hold(bed.appId, "hello-9" as ReplicaId);
  assert.equal(bed.proxy.apps.running(replicaId), 1);
  assert.equal(bed.proxy.apps.demandOf(bed.appId).running, 2);
  bed.setReplicas(port);
  const letGoLate = bed.proxy.apps.hold(bed.appId, replicaId);
  assert.equal(bed.proxy.apps.running(replicaId), 2);
  const run = new WatchedRun(bed);
  assert.equal(bed.proxy.apps.demandOf(bed.appId).waiting, 1, "what is counted takes a place");
  letGo();
  letGo();
  await until("the place goes to the run", () => answers.length === 1);
  assert.equal(bed.proxy.apps.running(replicaId), 2);
  const nudges = bed.nudged.length;
  letGoOther();
  assert.ok(bed.nudged.length > nudges, "the scheduler may be waiting for it");
  letGoLate();
  answers[0]?.end("done");
  await assertEnded(bed, run, "200 done");
  assert.equal(bed.proxy.apps.running(replicaId), 0);
});

test("a replica that drains is told apart as long as a call of an earlier process is on it", async (t) => {
  const bed = await openProxyBed(t);
  const { port } = await waitingReplica(t);
  bed.setReplicas(port);
  const letGo = bed.proxy.apps.hold(bed.appId, replicaIdOf(port));
  bed.proxy.apps.retire(replicaIdOf(port));
  bed.setReplicas();
  assert.equal(bed.proxy.apps.running(replicaIdOf(port)), 1);
  const nudges = bed.nudged.length;
  letGo();
  assert.equal(bed.proxy.apps.running(replicaIdOf(port)), 0);
  assert.ok(bed.nudged.length > nudges);
});
