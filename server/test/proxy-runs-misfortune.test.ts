// What goes wrong around the calls of async runs: replicas that are gone, break off or take too
// long, keepers that decide late or against it, a line that is full, a platform that stops. Each
// ends exactly once with its place given back.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId } from "#lib/ids.ts";
import { closedPort, httpReplica, openProxyBed, rawReplica } from "./support/proxy-bed.ts";
import { assertEnded, inShort, waitingReplica, WatchedRun } from "./support/run-watcher.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";
import { tcpAddress } from "#test/support/replica-address.ts";

test("a replica that cannot be reached is left for another one, for which the keeper is asked again", async (t) => {
  const bed = await openProxyBed(t, { settings: { loadBalancingAlgorithm: "first-available" } });
  const closed = await closedPort(t);
  const good = await httpReplica(t, (_request, response) => response.end("good"));
  bed.setReplicas(closed, good);
  const run = new WatchedRun(bed);
  await assertEnded(bed, run, "200 good");
  assert.deepEqual(
    run.starts.map((replica) => tcpAddress(replica.address).port),
    [closed, good],
  );
});

test("when no replica can be reached it is told so, without addresses and with nothing sent", async (t) => {
  const bed = await openProxyBed(t);
  const ports = [await closedPort(t), await closedPort(t), await closedPort(t)];
  bed.setReplicas(...ports);
  const run = new WatchedRun(bed);
  await assertEnded(bed, run, "replica_failed not sent");
  assert.equal(run.starts.length, 3);
  const [ending] = run.endings;
  assert.ok(ending?.kind === "failed");
  const { message } = ending.fault;
  assert.match(
    message,
    /it takes no connections \(ECONNREFUSED\)\. Check the app's log for the run [0-9a-f-]{36};/,
  );
  assert.doesNotMatch(message, /127\.0\.0\.1/);
  // The run's id may hold the digits of a port by chance.
  const words = message.replaceAll(/[0-9a-f-]{36}/g, "");
  for (const port of ports) assert.ok(!words.includes(String(port)), message);
});

test("a run whose only replica cannot be reached waits in the line for its successor", async (t) => {
  const bed = await openProxyBed(t);
  bed.setReplicas(await closedPort(t));
  const run = new WatchedRun(bed);
  await until("it waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
  assert.equal(run.starts.length, 1);
  bed.setReplicas(await httpReplica(t, (_request, response) => response.end("good")));
  await assertEnded(bed, run, "200 good");
  assert.equal(run.starts.length, 2);
});

test("a replica that refuses a run has not begun it, which only a 503 can say", async (t) => {
  const bed = await openProxyBed(t);
  const refusing = (status: number) =>
    httpReplica(t, (_request, response) =>
      response.writeHead(status, { "slipway-refused": "1" }).end('{"message": "stopping"}'),
    );
  bed.setReplicas(await refusing(503));
  const run = new WatchedRun(bed);
  await assertEnded(bed, run, "replica_failed not sent");
  bed.setReplicas(await refusing(500));
  await assertEnded(bed, new WatchedRun(bed), '500 {"message": "stopping"}');
});

test("answers that break off or make no sense are told as sent, whatever came of them", async (t) => {
  const bed = await openProxyBed(t);
  const broken: readonly (readonly [string, string, "end" | "reset"])[] = [
    ["nothing at all", "", "end"],
    ["half a head", "HTTP/1.1 200 OK\r\nContent-", "end"],
    ["half a body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "end"],
    [
      "half of the chunks",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
      "reset",
    ],
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
    assert.ok(
      ending.fault.message.includes(`Check the app's log for the run ${run.request.runId}`),
      what,
    );
    assert.doesNotMatch(ending.fault.message, /127\.0\.0\.1|\d{4,5}\b.*port/, what);
    await assertEnded(bed, run, "replica_failed sent");
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
        // The first connection serves one call, and breaks with the second as an idle time that
        // runs out would.
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
  assert.match(
    full.fault.message,
    /SLIPWAY_LINE_LENGTH.*Retry-After.*maxReplicaCount or replicaConcurrency/,
  );
  assert.equal(full.fault.retryAfterSeconds, 1);
  await clock.advance(5_100);
  await assertEnded(bed, waiting, "line_timeout not sent");
  const third = new WatchedRun(bed);
  bed.view.put(bed.appId, {
    ready: [],
    failure: { kind: "start_failed", reason: "it crashes", retryAtMs: null },
  });
  await assertEnded(bed, third, "start_failed not sent");
  await assertEnded(bed, new WatchedRun(bed), "start_failed not sent");
});

test("an app without a release, one that is gone, and a proxy that is closed refuse runs", async (t) => {
  const bed = await openProxyBed(t);
  await assertEnded(
    bed,
    new WatchedRun(bed, { appId: "p-00000001-gone" as AppId }),
    "not_found not sent",
  );
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
  await until("it waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
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
    mayGrow: () => null,
    onEnd: () => {
      isTold = true;
      throw new Error("a bug of the keeper");
    },
  });
  await until("it is told", () => isTold);
  await assertEnded(bed, new WatchedRun(bed), "200 ok");
});
