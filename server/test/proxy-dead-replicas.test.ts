// Calls of replicas that have died, as the proxy notices it first: they were refused a connection,
// so no replica has seen a byte of them, and they wait for one that is alive.
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "./support/virtual-clock.ts";
import { bothWays, closedPort, httpReplica, untilFree } from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

test(
  "a call whose replica cannot be reached goes to another one, with its body",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const dead = await closedPort(t);
    const alive = await httpReplica(t, (request, response) => request.pipe(response));
    bed.setReplicas(dead, alive);
    for (let times = 0; times < 3; times++) {
      assert.equal(await (await bed.call("/run", { method: "POST", body: "mine" })).text(), "mine");
    }
    await untilFree(bed);
  }),
);

test(
  "a call that no replica takes waits for one, however many dead ones there are, until the deadline of the line",
  bothWays(async (t, openBed) => {
    const clock = new VirtualClock();
    const bed = await openBed(t, { clock, limits: { lineWaitMs: 60_000 } });
    const dead = [
      await closedPort(t),
      await closedPort(t),
      await closedPort(t),
      await closedPort(t),
    ];
    bed.setReplicas(...dead);
    const first = bed.call("/run", { method: "POST", body: "mine" });
    const second = bed.call("/run");
    for (let turn = 0; turn < 10; turn++) {
      await until("both wait", () => bed.proxy.apps.demandOf(bed.appId).waiting === 2);
      await clock.advance(301);
    }
    const alive = await httpReplica(t, (request, response) => request.pipe(response));
    bed.setReplicas(...dead, alive);
    assert.equal(await (await first).text(), "mine");
    assert.equal((await second).status, 200);
    bed.setReplicas(...dead);
    let status = 0;
    void bed.call("/run").then((response) => (status = response.status));
    await until("it waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
    await until("it is refused", async () => {
      await clock.advance(20_000);
      return status !== 0;
    });
    assert.equal(status, 504);
    await untilFree(bed);
  }),
);

test(
  "calls whose only replica has died wait for its successor, in their order",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { settings: { replicaConcurrency: 1 } });
    bed.setReplicas(await closedPort(t));
    const calls: Promise<Response>[] = [];
    for (const body of ["1", "2", "3"]) {
      calls.push(bed.call("/run", { method: "POST", body }));
      await until("it waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === calls.length);
    }
    const got: string[] = [];
    const successor = await httpReplica(t, (request, response) => {
      request.on("data", (chunk: Buffer) => got.push(chunk.toString()));
      request.pipe(response);
    });
    bed.setReplicas(successor);
    for (const call of calls) assert.equal((await call).status, 200);
    assert.deepEqual(got, ["1", "2", "3"]);
    await untilFree(bed);
  }),
);

test(
  "a replica that refuses calls because it stops gets no others for a moment",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, {
      settings: { loadBalancingAlgorithm: "first-available" },
      clock: new VirtualClock(),
    });
    const stopping = await httpReplica(t, (_request, response) =>
      response.writeHead(503, { "slipway-refused": "1", "retry-after": "1" }).end(),
    );
    const alive = await httpReplica(t, (request, response) => request.pipe(response));
    bed.setReplicas(stopping, alive);
    const refused = await bed.call("/run", { method: "POST", body: "mine" });
    assert.equal(refused.status, 503);
    assert.deepEqual(
      [refused.headers.get("slipway-refused"), refused.headers.get("retry-after")],
      [null, "1"],
    );
    for (let times = 0; times < 3; times++) {
      assert.equal(await (await bed.call("/run", { method: "POST", body: "mine" })).text(), "mine");
    }
    await untilFree(bed);
  }),
);
