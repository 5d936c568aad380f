// What an app without a sandbox leaves: sweeps over process tables as they look while processes
// start, change and end.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Leftovers, type LeftoversOptions, type SweepResult } from "./leftovers.ts";
import type { ProcessFacts } from "./process-table.ts";

const marker = "SLIPWAY_REPLICA_ID=app-1";
const plain: ProcessFacts = {
  startTicks: "500",
  group: 7,
  isDead: false,
  isKernels: false,
  environment: [],
};
const marked: ProcessFacts = { ...plain, environment: ["A=1", marker] };
const changing: ProcessFacts = { ...plain, environment: "unknown" };
const dead: ProcessFacts = { ...changing, isDead: true };
/** It was listed, but had ended before it was looked at. */
const gone = null;

type Table = Readonly<Record<number, ProcessFacts | null>>;

/** One sweep after the other, each over its table. */
function sweeps(
  tables: readonly Table[],
  { everyMs = 5, ...options }: Partial<LeftoversOptions> & { everyMs?: number } = {},
): { results: SweepResult[]; killed: number[][] } {
  let table: Table = {};
  let killed: number[] = [];
  let nowMs = 1_000_000;
  const leftovers = new Leftovers(
    { marker, group: null, sinceTicks: null, ...options },
    {
      list: () => Object.keys(table).map(Number),
      read: (pid) => table[pid] ?? null,
      kill: (pid) => void killed.push(pid),
      ask: () => undefined,
    },
  );
  const rounds = tables.map((next) => {
    table = next;
    killed = [];
    return { result: leftovers.sweep((nowMs += everyMs)), killed };
  });
  return {
    results: rounds.map(({ result }) => result),
    killed: rounds.map((round) => round.killed),
  };
}

test("what carries the marker is killed until it is not there any more, and nothing else is", () => {
  const other = { ...plain, environment: [`${marker}2`, `X=${marker}`] };
  const { results, killed } = sweeps([
    { 20: marked, 21: other },
    { 20: marked, 21: other },
    { 21: other },
  ]);
  assert.deepEqual(results, ["again", "again", "gone"]);
  assert.deepEqual(killed, [[20], [20], []]);
});

test("several markers are looked for in one scan", () => {
  const isMarker = (variable: string): boolean => variable.startsWith(`${marker}.`);
  const one = { ...plain, environment: ["A=1", `${marker}.1`, `${marker}.2`] };
  const other = { ...plain, environment: [marker, `X=${marker}.1`] };
  const { results, killed } = sweeps([{ 20: one, 21: other, 22: one }, { 21: other }], {
    marker: isMarker,
  });
  assert.deepEqual(
    [results, killed],
    [
      ["again", "gone"],
      [[20, 22], []],
    ],
  );
});

test("a process between two programs, which shows no environment, is looked at again and killed when it shows one", () => {
  const { results, killed } = sweeps([{ 20: changing }, { 20: marked }, {}]);
  assert.deepEqual(results, ["again", "again", "gone"]);
  assert.deepEqual(killed, [[], [20], []]);
});

test("a process that ends while it is looked at may have had a child, which is found by the next look", () => {
  for (const ended of [gone, dead]) {
    const { results, killed } = sweeps([{ 20: ended }, { 21: marked }, {}]);
    assert.deepEqual(results, ["again", "again", "gone"]);
    assert.deepEqual(killed, [[], [21], []]);
  }
});

test("a killed process counts until it has ended, also when it shows no environment any more", () => {
  const { results } = sweeps([{ 20: marked }, { 20: changing }, { 20: dead }, { 20: dead }]);
  assert.deepEqual(results, ["again", "again", "again", "gone"]);
});

test("what was there before the replica, the kernel's and other users' processes hold nothing up", () => {
  const older = { ...changing, startTicks: "99" };
  const others: Table = {
    2: { ...changing, isKernels: true },
    3: { ...plain, environment: "refused" },
    4: older,
    5: { ...older, isDead: true },
    6: { ...marked, startTicks: "99" },
  };
  assert.deepEqual(sweeps([others], { sinceTicks: "100" }), { results: ["gone"], killed: [[]] });
  // Processes that belong to somebody else may end at any time.
  assert.deepEqual(sweeps([{ 3: plain }, { 3: gone }]).results, ["gone", "gone"]);
  assert.deepEqual(sweeps([{ 3: plain }, { 3: changing }]).results, ["gone", "gone"]);
});

test("the replica's own group is killed once, and its members are waited for even without the marker", () => {
  const member = { ...plain, group: 20 };
  const { results, killed } = sweeps([{ 21: member }, { 21: member, 22: member }, { 22: member }], {
    group: 20,
  });
  assert.deepEqual(results, ["again", "again", "gone"]);
  assert.deepEqual(killed, [[-20, 21], [21], []]);
});

test("what cannot be killed is given up on in the end, and sooner what was never seen to be left", () => {
  const rounds = Array.from({ length: 13 }, (_, round) => ({ [round + 10]: marked }));
  const { results } = sweeps(rounds, { everyMs: 1000 });
  assert.deepEqual([results.indexOf("lost"), results.lastIndexOf("again")], [10, 9]);
  const changes = [0, 1, 2].map((round) => ({ [round]: changing }));
  assert.deepEqual(sweeps(changes, { everyMs: 1000 }).results, ["again", "again", "gone"]);
  for (const ended of [gone, dead]) {
    const ends = [0, 1, 2].map((round) => ({ [round]: ended }));
    assert.deepEqual(sweeps(ends, { everyMs: 150 }).results, ["again", "again", "gone"]);
    // The time counts from where something was last seen.
    const after = sweeps([{ 9: marked }, { 9: marked }, ...ends], { everyMs: 150 });
    assert.deepEqual(after.results, ["again", "again", "again", "gone", "gone"]);
  }
});
