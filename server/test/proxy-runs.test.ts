// Calls of async runs on the road of plain calls: line, limits and choice of the replica hold for them too, nothing is
// sent before the run's keeper says so, and whatever happens they end exactly once with their place given back.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { ServerResponse } from "node:http";
import { test, type TestContext } from "node:test";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import {
  answerWith,
  closedPort,
  httpReplica,
  openProxyBed,
  rawReplica,
  replicaIdOf,
  type ProxyBed,
} from "./support/proxy-bed.ts";
import { inShort, WatchedRun } from "./support/run-watcher.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

async function untilFree(bed: ProxyBed): Promise<void> {
  await until("no place is taken", () => {
    const { running, waiting } = bed.proxy.demandOf(bed.appId);
    return running === 0 && waiting === 0;
  });
}

/** Ended once, as told, and holds nothing any more. */
async function assertEnded(bed: ProxyBed, run: WatchedRun, expected: string): Promise<void> {
  assert.equal(inShort(await run.ended()), expected);
  await untilFree(bed);
  run.handle.withdraw();
  assert.equal(run.endings.length, 1, "it ends once");
}

/** A replica that answers when the test says so. */
async function waitingReplica(t: TestContext): Promise<{ port: number; answers: ServerResponse[] }> {
  const answers: ServerResponse[] = [];
  const port = await httpReplica(t, (_request, response) => answers.push(response));
  return { port, answers };
}

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
    ...{ kind: "answered", status: 201, contentType: "text/x; charset=é" },
    body: Buffer.from("one,two"),
    bodyBytes: 7,
  });
  const rawHeaders = ["Host", "test", "x-one", "1", "X-Request-Id", run.request.runId, "Content-Length", "3"];
  assert.deepEqual(seen, [{ method: "POST", url: "/run/x?y=1", rawHeaders, body: "[1]" }]);
  assert.deepEqual(
    run.starts.map((replica) => replica.replicaId),
    bed.view.ready(bed.appId).map((replica) => replica.replicaId),
  );
  await untilFree(bed);
  assert.equal(bed.finished.length, 0, "the records of plain calls know nothing of runs");
  assert.match(bed.proxy.metrics(), /201/);
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
  assert.equal(inShort(await new WatchedRun(bed, { path: "/chunks", answerBytesMax }).ended()), "200 10 bytes");
  assert.equal(inShort(await new WatchedRun(bed, { path: "/chunks", answerBytesMax: 10 }).ended()), "200 xxxxxxxyyy");
  assert.equal(inShort(await new WatchedRun(bed, { path: "/", answerBytesMax: 3 }).ended()), "200 yyy");
  assert.equal(inShort(await new WatchedRun(bed, { path: "/", answerBytesMax: 2 }).ended()), "200 3 bytes");
});

test("an answer in a hundred thousand pieces is the same as in one", async (t) => {
  const bed = await openProxyBed(t);
  const count = 100_000;
  bed.setReplicas(
    await rawReplica(t, (socket) => {
      answerWith(socket, `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(count)}0\r\n\r\n`);
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
  await until("two wait", () => bed.proxy.demandOf(bed.appId).waiting === 2);
  assert.equal(run.starts.length, 0, "its keeper is asked only when there is a place");
  answers[0]?.end("first");
  await until("the run runs", () => answers.length === 2);
  assert.equal(run.starts.length, 1);
  assert.deepEqual(
    { ...bed.proxy.demandOf(bed.appId), lastActiveAtMs: 0 },
    { running: 1, waiting: 1, lastActiveAtMs: 0, receivedTotal: 3 },
  );
  answers[1]?.end("second");
  assert.equal(inShort(await run.ended()), "200 second");
  await until("the last runs", () => answers.length === 3);
  answers[2]?.end("third");
  assert.deepEqual(await Promise.all([first, last].map(async (call) => await (await call).text())), ["first", "third"]);
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
  assert.equal(bed.proxy.running(replicaIdOf(port)), 1);
  const other = new WatchedRun(bed);
  assert.equal(bed.proxy.demandOf(bed.appId).waiting, 1);
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

test("a replica that cannot be reached is left for another one, for which the keeper is asked again", async (t) => {
  const bed = await openProxyBed(t, { settings: { loadBalancingAlgorithm: "first-available" } });
  const closed = await closedPort();
  const good = await httpReplica(t, (_request, response) => response.end("good"));
  bed.setReplicas(closed, good);
  const run = new WatchedRun(bed);
  await assertEnded(bed, run, "200 good");
  assert.deepEqual(
    run.starts.map((replica) => replica.address.port),
    [closed, good],
  );
});

test("a run whose only replica cannot be reached waits in the line for its successor", async (t) => {
  const bed = await openProxyBed(t);
  bed.setReplicas(await closedPort());
  const run = new WatchedRun(bed);
  await until("it waits", () => bed.proxy.demandOf(bed.appId).waiting === 1);
  assert.equal(run.starts.length, 1);
  bed.setReplicas(await httpReplica(t, (_request, response) => response.end("good")));
  await assertEnded(bed, run, "200 good");
  assert.equal(run.starts.length, 2);
});

test("answers that break off or make no sense are told as sent, whatever came of them", async (t) => {
  const bed = await openProxyBed(t);
  const broken: readonly (readonly [string, string, "end" | "reset"])[] = [
    ["nothing at all", "", "end"],
    ["half a head", "HTTP/1.1 200 OK\r\nContent-", "end"],
    ["half a body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "end"],
    ["half of the chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "reset"],
    ["no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", "end"],
  ];
  for (const [what, answer, way] of broken) {
    const port = await rawReplica(t, (socket) => {
      socket.on("data", () => {
        if (way === "end") socket.end(answer, "latin1");
        else socket.write(answer, "latin1", () => socket.resetAndDestroy());
      });
    });
    bed.setReplicas(port);
    const run = new WatchedRun(bed);
    const ending = await run.ended();
    assert.equal(inShort(ending), "replica_failed sent", what);
    assert.ok(ending.kind === "failed");
    assert.ok(ending.fault.message.includes(`Look at the app's log for the run ${run.request.runId}`), what);
    assert.doesNotMatch(ending.fault.message, /127\.0\.0\.1|\d{4,5}\b.*port/, what);
    await untilFree(bed);
    assert.equal(run.endings.length, 1);
  }
});

test("a connection that the replica closes while it is idle is told from one that it has worked on", async (t) => {
  const bed = await openProxyBed(t);
  const heads: string[] = [];
  bed.setReplicas(
    await rawReplica(t, (socket, index) => {
      let count = 0;
      socket.on("data", (chunk: Buffer) => {
        heads.push(`${index} ${chunk.toString("latin1").slice(0, 4)}`);
        // The first connection serves one call, and breaks with the second as an idle time that runs out would.
        if (index === 0 && count++ > 0) socket.destroy();
        else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      });
    }),
  );
  const empty = Buffer.alloc(0);
  await assertEnded(bed, new WatchedRun(bed, { method: "GET", body: empty }), "200 ok");
  await assertEnded(bed, new WatchedRun(bed, { method: "GET", body: empty }), "200 ok");
  assert.deepEqual(heads, ["0 GET ", "0 GET ", "1 GET "]);
});

test("an app that takes too long ends the run's call with call_timeout, before and after the head", async (t) => {
  const clock = new VirtualClock();
  const bed = await openProxyBed(t, { clock, settings: { responseGracePeriodSeconds: 20 } });
  const { port, answers } = await waitingReplica(t);
  bed.setReplicas(port);
  const silent = new WatchedRun(bed);
  const slow = new WatchedRun(bed);
  await until("both run", () => answers.length === 2);
  answers[1]?.write("begun");
  await clock.advance(20_100);
  await assertEnded(bed, silent, "call_timeout sent");
  await assertEnded(bed, slow, "call_timeout sent");
});

test("a keeper that takes too long is not the app's fault", async (t) => {
  const clock = new VirtualClock();
  const bed = await openProxyBed(t, { clock, settings: { responseGracePeriodSeconds: 20 } });
  const { port, answers } = await waitingReplica(t);
  bed.setReplicas(port);
  const decision = Promise.withResolvers<boolean>();
  const run = new WatchedRun(bed, {}, () => decision.promise);
  await until("the keeper is asked", () => run.starts.length === 1);
  await clock.advance(20_100);
  await assertEnded(bed, run, "unavailable not sent");
  decision.resolve(true);
  const next = new WatchedRun(bed);
  await until("the next runs", () => answers.length === 1);
  answers[0]?.end("next");
  await assertEnded(bed, next, "200 next");
  assert.equal(answers.length, 1, "a decision that came too late sends nothing");
});

test("a full line, a line without end and a start that failed are told without anything sent", async (t) => {
  const clock = new VirtualClock();
  const bed = await openProxyBed(t, { clock, limits: { lineLengthMax: 1, lineWaitMs: 5_000 } });
  const waiting = new WatchedRun(bed);
  const refused = new WatchedRun(bed);
  const full = await refused.ended();
  assert.equal(inShort(full), "line_full not sent");
  assert.ok(full.kind === "failed");
  assert.match(full.fault.message, /SLIPWAY_LINE_LENGTH.*Retry-After.*maxReplicaCount or replicaConcurrency/);
  assert.equal(full.fault.retryAfterSeconds, 1);
  await clock.advance(5_100);
  await assertEnded(bed, waiting, "line_timeout not sent");
  const third = new WatchedRun(bed);
  bed.view.put(bed.appId, { ready: [], failure: { kind: "start_failed", reason: "it crashes", retryAtMs: null } });
  await assertEnded(bed, third, "start_failed not sent");
  await assertEnded(bed, new WatchedRun(bed), "start_failed not sent");
});

test("an app without a release, one that is gone, and a proxy that is closed refuse runs", async (t) => {
  const bed = await openProxyBed(t);
  await assertEnded(bed, new WatchedRun(bed, { appId: "p-00000001-gone" as AppId }), "not_deployed not sent");
  bed.setRoute({ live: null });
  const run = new WatchedRun(bed);
  assert.equal(run.endings.length, 0, "nothing is told before run() has returned");
  await assertEnded(bed, run, "not_deployed not sent");
  const other = await openProxyBed(t);
  other.proxy.close();
  await assertEnded(other, new WatchedRun(other), "unavailable not sent");
});

test("a run is withdrawn while it waits, while its keeper decides, while it connects and while the app works", async (t) => {
  const bed = await openProxyBed(t, { settings: { replicaConcurrency: 1 } });
  let requests = 0;
  let isClosed = false;
  const port = await httpReplica(t, (_request, response) => {
    requests++;
    response.on("close", () => (isClosed = true));
  });
  const waiting = new WatchedRun(bed);
  await until("it waits", () => bed.proxy.demandOf(bed.appId).waiting === 1);
  waiting.handle.withdraw();
  await assertEnded(bed, waiting, "withdrawn");

  bed.setReplicas(port);
  const decision = Promise.withResolvers<boolean>();
  const deciding = new WatchedRun(bed, {}, () => decision.promise);
  await until("the keeper is asked", () => deciding.starts.length === 1);
  deciding.handle.withdraw();
  await assertEnded(bed, deciding, "withdrawn");
  decision.resolve(true);

  const connecting: WatchedRun = new WatchedRun(bed, {}, () => {
    // Behind all that follows from the decision at once: the connection is being made.
    process.nextTick(() => connecting.handle.withdraw());
    return Promise.resolve(true);
  });
  await assertEnded(bed, connecting, "withdrawn");

  const early = new WatchedRun(bed);
  early.handle.withdraw();
  await assertEnded(bed, early, "withdrawn");
  assert.equal(early.starts.length, 0, "who has withdrawn is not asked");
  assert.equal(requests, 0);

  const running = new WatchedRun(bed);
  await until("the app works on it", () => requests === 1);
  running.handle.withdraw();
  await assertEnded(bed, running, "withdrawn");
  await until("the app sees that nobody waits", () => isClosed);
});

test("runs do not outlive the proxy: what waits, starts or runs ends when it is closed", async (t) => {
  const bed = await openProxyBed(t, { settings: { replicaConcurrency: 2 } });
  const { port, answers } = await waitingReplica(t);
  bed.setReplicas(port);
  const running = new WatchedRun(bed);
  await until("it runs", () => answers.length === 1);
  const deciding = new WatchedRun(bed, {}, () => new Promise(() => undefined));
  const waiting = new WatchedRun(bed);
  await until("the keeper is asked", () => deciding.starts.length === 1);
  bed.proxy.close();
  await assertEnded(bed, running, "unavailable sent");
  await assertEnded(bed, deciding, "unavailable not sent");
  await assertEnded(bed, waiting, "unavailable not sent");
});

test("a keeper that throws when it is told the end harms nobody else", async (t) => {
  const bed = await openProxyBed(t);
  bed.setReplicas(await httpReplica(t, (_request, response) => response.end("ok")));
  let isTold = false;
  const { request } = new WatchedRun(bed);
  bed.proxy.run(request, {
    mayStart: () => Promise.resolve(true),
    onEnd: () => {
      isTold = true;
      throw new Error("a bug of the keeper");
    },
  });
  await until("it is told", () => isTold);
  await assertEnded(bed, new WatchedRun(bed), "200 ok");
});

test("calls that an earlier process sent count before and after their replica is known, once", async (t) => {
  const bed = await openProxyBed(t, { settings: { replicaConcurrency: 2 } });
  const { port, answers } = await waitingReplica(t);
  const replicaId = replicaIdOf(port);
  const letGo = bed.proxy.hold(bed.appId, replicaId);
  const letGoOther = bed.proxy.hold(bed.appId, "hello-9" as ReplicaId);
  assert.equal(bed.proxy.running(replicaId), 1);
  assert.equal(bed.proxy.demandOf(bed.appId).running, 2);
  bed.setReplicas(port);
  const letGoLate = bed.proxy.hold(bed.appId, replicaId);
  assert.equal(bed.proxy.running(replicaId), 2);
  const run = new WatchedRun(bed);
  assert.equal(bed.proxy.demandOf(bed.appId).waiting, 1, "what is counted takes a place");
  letGo();
  letGo();
  await until("the place goes to the run", () => answers.length === 1);
  assert.equal(bed.proxy.running(replicaId), 2);
  const nudges = bed.nudged.length;
  letGoOther();
  assert.ok(bed.nudged.length > nudges, "the scheduler may be waiting for it");
  letGoLate();
  answers[0]?.end("done");
  await assertEnded(bed, run, "200 done");
  assert.equal(bed.proxy.running(replicaId), 0);
});

test("a replica that drains is told apart as long as a call of an earlier process is on it", async (t) => {
  const bed = await openProxyBed(t);
  const { port } = await waitingReplica(t);
  bed.setReplicas(port);
  const letGo = bed.proxy.hold(bed.appId, replicaIdOf(port));
  bed.proxy.retire(replicaIdOf(port));
  bed.setReplicas();
  assert.equal(bed.proxy.running(replicaIdOf(port)), 1);
  const nudges = bed.nudged.length;
  letGo();
  assert.equal(bed.proxy.running(replicaIdOf(port)), 0);
  assert.ok(bed.nudged.length > nudges);
});
