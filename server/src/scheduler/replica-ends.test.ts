// The runs that a replica took down get its reason and its lines, whichever is known first; other
// runs do not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { newRunId, type AppId, type ProjectId, type ReplicaId, type RunId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { ReplicaEnds } from "./replica-ends.ts";
import type { Replica } from "./replica.ts";
import type { EndOrder } from "./replica-state.ts";

const replicaId = "app-0123456789" as ReplicaId;
const end = { reason: "It crashed.", exitCode: 3, at: 1_000 };

const of = (runId: RunId, sinceMs = 0) => ({ replicaId, runId, sinceMs });

function stage() {
  const clock = new VirtualClock();
  const noted: string[] = [];
  const assigned: RunId[] = [];
  const lines = {
    append: (given: readonly { readonly text: string }[]) => {
      noted.push(...given.map(({ text }) => text));
      return Promise.resolve();
    },
    assignLast: (_: ReplicaId, { runIds }: { readonly runIds: readonly RunId[] }) => {
      assigned.push(...runIds);
      return Promise.resolve();
    },
  };
  const replicaOf = (endOrder: EndOrder | null): Replica =>
    ({
      replicaId,
      appId: "p-1-app" as AppId,
      release: { projectId: "p-1" as ProjectId },
      endOrder,
    }) as Replica;
  return {
    clock,
    noted,
    assigned,
    replicaOf,
    ends: new ReplicaEnds({ lines, clock, log: silentLog }),
  };
}

test("a call that broke off before the end, one at the end, and one after its lines are stored get all", async () => {
  const { clock, noted, assigned, replicaOf, ends } = stage();
  const runs = [newRunId(), newRunId(), newRunId()] as const;
  const before = ends.brokeOff(of(runs[0]));
  await clock.advance(1_000);
  ends.ended(replicaOf(null), end);
  const meanwhile = ends.brokeOff(of(runs[1]));
  const reasons = { reason: end.reason, reasonForCaller: end.reason };
  assert.deepEqual(await Promise.all([before, meanwhile]), [reasons, reasons]);
  await ends.report(replicaOf(null), end);
  assert.deepEqual(
    [noted, assigned],
    [["[slipway] The replica has ended: It crashed."], [runs[0], runs[1]]],
  );
  assert.deepEqual(await ends.brokeOff(of(runs[2])), reasons);
  await clock.advance(0);
  assert.deepEqual(assigned, [...runs]);
});

test("a call that broke off on a replica that goes on has no reason, and nothing of its later end", async () => {
  const { clock, assigned, replicaOf, ends } = stage();
  const reason = ends.brokeOff(of(newRunId()));
  assert.equal(ends.hasBrokenCalls(replicaId), true);
  await clock.advance(5_001);
  assert.equal(await reason, null);
  assert.equal(ends.hasBrokenCalls(replicaId), false);
  ends.ended(replicaOf(null), end);
  await ends.report(replicaOf(null), end);
  assert.deepEqual(assigned, []);
});

test("an end that the platform wanted is told only where it took a run down", async () => {
  const wanted = { reason: "It is no longer needed.", kind: "wanted" } as const;
  const quiet = stage();
  await quiet.ends.report(quiet.replicaOf(wanted), end);
  assert.deepEqual(quiet.noted, []);
  const { noted, assigned, replicaOf, ends } = stage();
  const runId = newRunId();
  ends.ended(replicaOf(wanted), end);
  assert.equal((await ends.brokeOff(of(runId)))?.reason, wanted.reason);
  await ends.report(replicaOf(wanted), end);
  assert.deepEqual(
    [noted, assigned],
    [[`[slipway] The replica has ended: ${wanted.reason}`], [runId]],
  );
});

test("the log says whether a replica ended by itself, by the platform, or before this one began", async () => {
  const clock = new VirtualClock();
  const logged: string[] = [];
  const log = pino(
    { base: null, timestamp: false },
    { write: (line: string) => void logged.push(line) },
  );
  const lines = { append: () => Promise.resolve(), assignLast: () => Promise.resolve() };
  const { replicaOf } = stage();
  const ends = new ReplicaEnds({ lines, clock, log });
  await ends.report(replicaOf(null), { ...end, at: clock.now() - 1 });
  await ends.report(replicaOf(null), { ...end, at: clock.now() });
  const unhealthy = { reason: "It did not answer.", kind: "unhealthy" } as const;
  await ends.report(replicaOf(unhealthy), { ...end, at: clock.now() });
  const said = logged.map(
    (line) => JSON.parse(line) as { readonly level: number; readonly msg: string },
  );
  assert.deepEqual(
    said.map(({ level, msg }) => [level, msg]),
    [
      [30, "a replica ended while the platform was stopped"],
      [40, "replica exited unexpectedly"],
      [40, "the platform has ended a replica"],
    ],
  );
});

test("a reason quotes to each call only what the replica wrote since that began, and to callers nothing", async () => {
  const early = newRunId();
  const late = newRunId();
  const other = newRunId();
  const without = "It ended with exit code 1.";
  const reasonsWith = async (quote: { readonly at: number; readonly runId: RunId | null }) => {
    const { ends, replicaOf } = stage();
    const crash = { reason: "It ended with exit code 1: E: x.", exitCode: 1, at: 500 };
    ends.ended(replicaOf(null), { ...crash, quote: { ...quote, reasonWithout: without } });
    const found = await Promise.all([ends.brokeOff(of(early, 100)), ends.brokeOff(of(late, 300))]);
    assert.ok(found.every((one) => one?.reasonForCaller === without));
    return found.map((one) => one?.reason === crash.reason);
  };
  assert.deepEqual(await reasonsWith({ at: 99, runId: null }), [false, false]);
  assert.deepEqual(await reasonsWith({ at: 200, runId: null }), [true, false]);
  assert.deepEqual(await reasonsWith({ at: 400, runId: null }), [true, true]);
  assert.deepEqual(
    await reasonsWith({ at: 400, runId: late }),
    [true, true],
    "a call that it took down, too",
  );
  assert.deepEqual(
    await reasonsWith({ at: 400, runId: other }),
    [false, false],
    "one that had been answered",
  );
});

test("the reason that all can see quotes what was written since the first call that it took down, or just before", () => {
  const without = "It ended with exit code 1.";
  const isQuoted = (at: number, { calls = [] as number[], isBusy = false } = {}): boolean => {
    const { ends } = stage();
    for (const sinceMs of calls) void ends.brokeOff(of(newRunId(), sinceMs));
    const quote = { at, runId: null, reasonWithout: without };
    const crash = { reason: "It ended with exit code 1: E: x.", exitCode: 1, at: 50_000, quote };
    return ends.shown(replicaId, crash, isBusy).reason === crash.reason;
  };
  assert.equal(isQuoted(49_900), true);
  assert.equal(isQuoted(47_000), false);
  assert.equal(isQuoted(49_900, { isBusy: true }), false);
  assert.equal(isQuoted(20_000, { calls: [40_000, 10_000] }), true);
  assert.equal(isQuoted(9_999, { calls: [40_000, 10_000] }), false);
});
