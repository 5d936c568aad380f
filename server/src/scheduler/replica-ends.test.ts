// The runs that a replica took down get its reason and its lines, whichever is known first; other runs do not.
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

function stage() {
  const clock = new VirtualClock();
  const told: string[] = [];
  const assigned: RunId[] = [];
  const lines = {
    append: (given: readonly { readonly text: string }[]) => {
      told.push(...given.map(({ text }) => text));
      return Promise.resolve();
    },
    assignLast: (_: ReplicaId, { runIds }: { readonly runIds: readonly RunId[] }) => {
      assigned.push(...runIds);
      return Promise.resolve();
    },
  };
  const replicaOf = (endOrder: EndOrder | null): Replica =>
    ({ replicaId, appId: "p-1-app" as AppId, release: { projectId: "p-1" as ProjectId }, endOrder }) as Replica;
  return { clock, told, assigned, replicaOf, ends: new ReplicaEnds({ lines, clock, log: silentLog }) };
}

test("a call that broke off before the end, one at the end, and one after its lines are stored get all", async () => {
  const { clock, told, assigned, replicaOf, ends } = stage();
  const runs = [newRunId(), newRunId(), newRunId()] as const;
  const before = ends.brokeOff(replicaId, runs[0]);
  await clock.advance(1_000);
  ends.ended(replicaOf(null), end);
  const meanwhile = ends.brokeOff(replicaId, runs[1]);
  assert.deepEqual(await Promise.all([before, meanwhile]), [end.reason, end.reason]);
  await ends.tell(replicaOf(null), end);
  assert.deepEqual([told, assigned], [["[slipway] The replica has ended: It crashed."], [runs[0], runs[1]]]);
  assert.equal(await ends.brokeOff(replicaId, runs[2]), end.reason);
  await clock.advance(0);
  assert.deepEqual(assigned, [...runs]);
});

test("a call that broke off on a replica that goes on has no reason, and nothing of its later end", async () => {
  const { clock, assigned, replicaOf, ends } = stage();
  const reason = ends.brokeOff(replicaId, newRunId());
  await clock.advance(5_001);
  assert.equal(await reason, null);
  ends.ended(replicaOf(null), end);
  await ends.tell(replicaOf(null), end);
  assert.deepEqual(assigned, []);
});

test("an end that the platform wanted is told only where it took a run down", async () => {
  const wanted = { reason: "It is no longer needed.", kind: "wanted" } as const;
  const quiet = stage();
  await quiet.ends.tell(quiet.replicaOf(wanted), end);
  assert.deepEqual(quiet.told, []);
  const { told, assigned, replicaOf, ends } = stage();
  const runId = newRunId();
  ends.ended(replicaOf(wanted), end);
  assert.equal(await ends.brokeOff(replicaId, runId), wanted.reason);
  await ends.tell(replicaOf(wanted), end);
  assert.deepEqual([told, assigned], [[`[slipway] The replica has ended: ${wanted.reason}`], [runId]]);
});

test("a replica that ended before this platform began is no warning; one that ends meanwhile is", async () => {
  const clock = new VirtualClock();
  const logged: string[] = [];
  const log = pino({ base: null, timestamp: false }, { write: (line: string) => void logged.push(line) });
  const lines = { append: () => Promise.resolve(), assignLast: () => Promise.resolve() };
  const { replicaOf } = stage();
  const ends = new ReplicaEnds({ lines, clock, log });
  await ends.tell(replicaOf(null), { ...end, at: clock.now() - 1 });
  await ends.tell(replicaOf(null), { ...end, at: clock.now() });
  const said = logged.map((line) => JSON.parse(line) as { readonly level: number; readonly msg: string });
  assert.deepEqual(
    said.map(({ level, msg }) => [level, msg]),
    [
      [30, "a replica ended while the platform was stopped"],
      [40, "replica exited unexpectedly"],
    ],
  );
});
