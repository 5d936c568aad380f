// What the proxy does with an app that a budget has stopped: whatever comes in is refused alike,
// what waits is refused, what runs goes on; and who may not call it at all learns nothing.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { WebSocket } from "ws";
import { Fault } from "#lib/fault.ts";
import {
  bedTokens,
  helloPath,
  httpReplica,
  openProxyBed,
  type ProxyBed,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";
import "#test/support/leftovers.ts";

const reason = "The app takes no calls: its budget is used up.";

type StoppedBed = {
  readonly bed: ProxyBed;
  stop(): void;
  resume(): void;
  serve(): void;
  answers: (() => void)[];
};

/** A replica that takes one call at a time and answers when it is told. */
async function openBed(t: TestContext): Promise<StoppedBed> {
  let isStopped = false;
  const answers: (() => void)[] = [];
  const refusalOf = (): Fault | null => (isStopped ? new Fault("budget_reached", reason) : null);
  const asyncAccept = { accept: () => assert.fail("a run was accepted") };
  const settings = { runtime: "custom", replicaConcurrency: 1 } as const;
  const bed = await openProxyBed(t, { settings, options: { refusalOf, asyncAccept } });
  const port = await httpReplica(
    t,
    (_request, response) => void answers.push(() => response.end("done")),
  );
  bed.setReplicas(port);
  return {
    bed,
    answers,
    stop() {
      isStopped = true;
      // As the scheduler does it: no replica takes calls any more, and this is why.
      const [replica] = bed.view.ready(bed.appId);
      if (replica !== undefined) bed.proxy.apps.retire(replica.replicaId);
      bed.view.put(bed.appId, {
        ready: [],
        failure: { kind: "budget_reached", reason, retryAtMs: null },
      });
    },
    resume() {
      isStopped = false;
    },
    serve: () => bed.setReplicas(port),
  };
}

async function assertRefused(answer: Response): Promise<void> {
  assert.equal(answer.status, 402);
  assert.deepEqual(await answer.json(), { message: reason });
  assert.equal(answer.headers.get("retry-after"), null, "nobody is told to come again soon");
}

test("running calls end, waiting ones and all that come are refused with 402, until it is lifted", async (t) => {
  const { bed, stop, resume, serve, answers } = await openBed(t);
  const running = bed.call("/run");
  await until("a call runs", () => answers.length === 1);
  const waiting = bed.call("/run");
  await until("another one waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
  stop();
  await assertRefused(await waiting);
  await assertRefused(await bed.call("/run"));
  await assertRefused(await bed.call("/run", { method: "POST", body: "x".repeat(100_000) }));
  await assertRefused(await bed.call("/run?async=true", { method: "POST", body: "{}" }));
  const socket = new WebSocket(`ws://127.0.0.1:${bed.port}${helloPath}/run`, {
    headers: { authorization: `Bearer ${bedTokens.project}` },
  });
  socket.on("error", () => undefined);
  t.after(() => socket.terminate());
  const [, response] = (await once(socket, "unexpected-response")) as [
    unknown,
    { statusCode: number },
  ];
  assert.equal(response.statusCode, 402);
  answers[0]?.();
  const ended = await running;
  assert.deepEqual([ended.status, await ended.text()], [200, "done"]);
  resume();
  // The scheduler has not looked yet: the view says still that the app is stopped.
  const later = bed.call("/run");
  await until("it waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
  serve();
  await until("calls come through again", () => answers.length === 2);
  answers[1]?.();
  assert.equal((await later).status, 200);
});

test("who may not call the app is told that, stopped or not", async (t) => {
  const { bed, stop } = await openBed(t);
  stop();
  const asked = async (token: string) =>
    (await bed.call("/run", { headers: { authorization: `Bearer ${token}` } })).status;
  assert.deepEqual([await asked("none"), await asked(bedTokens.foreign)], [401, 404]);
});
