// Scaling against Knative's rule and the perfect line, for an hour of each load, and the rule and
// the line themselves.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ahead } from "#test/support/ahead.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import { compareLoad, means, seeds, type Compared } from "./comparison.ts";
import { curvesSvg } from "./curves-svg.ts";
import {
  knativeBegin,
  knativeDefaults,
  knativeTick,
  KnativeWindow,
  type KnativeState,
} from "./knative.ts";
import { callsOf, hourSeconds, loadShapes } from "./load-shapes.ts";
import { perfectLine } from "./perfect-line.ts";

const docs = join(import.meta.dirname, "../../../docs");

const played: { readonly name: string; readonly result: () => Compared }[] = [];
for (const shape of drawCases(loadShapes, { what: "loads", max: 1 })) {
  const result = await ahead(async () => {
    const hours: Compared[] = [];
    for (const seed of seeds) hours.push(await compareLoad(shape, seed, { isShort: true }));
    return means(hours);
  });
  played.push({ name: shape.name, result });
}

for (const { name, result } of played) {
  test(`${name}: callers wait no longer than with Knative's rule, and replicas cost no more`, () => {
    const compared = result();
    const { slipway, knative, perfect } = compared;
    const said = JSON.stringify(compared, (key, value: unknown) =>
      key === "curve" ? undefined : value,
    );
    assert.ok(slipway.waitedSeconds <= knative.waitedSeconds, said);
    assert.ok(slipway.replicaSeconds <= knative.replicaSeconds, said);
    assert.ok(perfect.replicaSeconds < slipway.replicaSeconds, said);
    const [waited = 0, replicas = 0] = documented(name);
    assert.ok(
      Math.abs(replicas / slipway.replicaSeconds - 1) < 0.05,
      `node server/sim/scheduler/compare.ts: ${said}`,
    );
    assert.ok(
      Math.abs(waited - slipway.waitedSeconds) < 0.3 * slipway.waitedSeconds,
      `the same: ${said}`,
    );
  });
}

/** What docs/benchmarks.md says of a load: seconds of waiting and replica-seconds. */
function documented(name: string): number[] {
  const row = readFileSync(join(docs, "benchmarks.md"), "utf8").match(
    new RegExp(`^\\| ${name} \\| Slipway \\| (\\d+) s \\| \\d+ ms \\| (\\d+) \\|`, "m"),
  );
  return (row ?? []).slice(1).map(Number);
}

test("the table has every load, and callers of Slipway wait less with fewer replica-seconds in sum", () => {
  for (const { name } of loadShapes) assert.equal(documented(name).length, 2, name);
  const sum = /wait ([\d.]+) × as long as those of Knative, with ([\d.]+) × the replica-seconds/;
  const [, waited, replicas] = sum.exec(readFileSync(join(docs, "benchmarks.md"), "utf8")) ?? [];
  assert.ok(Number(waited) < 1 && Number(replicas) < 1);
});

test("the picture of the guide is made of the curves of every load", () => {
  const flat = { waitedSeconds: 0, waitP99Ms: 0, replicaSeconds: 0, changes: 0, curve: [1, 2] };
  const one = { calls: 0, slipway: flat, defaults: flat, knative: flat, perfect: flat };
  const drawn = curvesSvg(loadShapes.map((shape) => ({ ...one, shape })));
  const kept = readFileSync(join(docs, "guides/scaling-curves.svg"), "utf8");
  for (const svg of [drawn, kept]) {
    assert.equal(svg.match(/<polyline /g)?.length, 3 * loadShapes.length);
    assert.doesNotMatch(svg, /NaN|undefined/);
  }
});

test("a load has its calls in order, at its rate, the same for the same seed", () => {
  for (const shape of loadShapes) {
    const calls = callsOf(shape, 5);
    assert.deepEqual(calls, callsOf(shape, 5));
    assert.ok(calls.every(({ atMs }, index) => atMs >= (calls[index - 1]?.atMs ?? 0)));
    const expected = Array.from({ length: hourSeconds }, (_, second) =>
      shape.callsPerSecond(second),
    );
    const ratio = calls.length / expected.reduce((sum, one) => sum + one, 0);
    assert.ok(ratio > 0.97 && ratio < 1.03, `${shape.name}: ${ratio}`);
  }
});

test("the perfect line starts each replica early enough, and keeps one that would soon be started again", () => {
  const calls = [
    { atMs: 10_000, durationMs: 1000 },
    { atMs: 10_500, durationMs: 1500 },
    { atMs: 13_000, durationMs: 1000 },
    { atMs: 60_000, durationMs: 1000 },
  ];
  const { replicaSeconds, curve } = perfectLine(calls, { callsPerReplica: 1, coldMs: 2000 });
  // The first replica from 8 to 14 and from 58 to 61, the second from 8.5 to 11.
  assert.equal(replicaSeconds, 6 + 2.5 + 3);
  assert.deepEqual([curve[7], curve[9], curve[13], curve[20], curve[60]], [0, 2, 1, 0, 1]);
});

/** Ticks of the rule at 0 s, 2 s, …: the means of both windows and the ready replicas of each. */
function ticks(given: readonly { stable: number; panic: number; ready: number }[]): number[] {
  let state: KnativeState = knativeBegin;
  return given.map(({ stable, panic, ready }, index) => {
    const settings = { ...knativeDefaults, callsPerReplica: 10 };
    const tick = knativeTick(settings, state, { now: 2 * index, stable, panic, readyCount: ready });
    state = tick.state;
    return tick.desired;
  });
}

test("Knative's rule: the stable mean by 70 %, panic from twice the ready ones, never down while it lasts", () => {
  assert.deepEqual(ticks([{ stable: 21, panic: 21, ready: 3 }]), [3]);
  assert.deepEqual(ticks([{ stable: 10, panic: 42, ready: 3 }]), [6], "6 of 3 are panic");
  const calm = { stable: 7, panic: 7, ready: 6 };
  const after = ticks([
    { stable: 10, panic: 42, ready: 3 },
    ...Array.from({ length: 31 }, () => calm),
  ]);
  assert.deepEqual(
    [after.at(-2), after.at(-1)],
    [6, 3],
    "60 s later it ends, and the number falls to half at most",
  );
});

test("Knative's rule: an idle one is marked inactive first, and goes then where the activator has long been there", () => {
  const idle = { stable: 0, panic: 0, ready: 1 };
  const busy = { stable: 1, panic: 1, ready: 1 };
  assert.deepEqual(
    ticks([...Array.from({ length: 15 }, () => busy), idle, idle]).slice(-3),
    [1, 1, 0],
  );
  const long = ticks([idle, ...Array.from({ length: 16 }, () => idle)]);
  assert.deepEqual([long.indexOf(0), long[14]], [15, 1], "without that, after the grace of 30 s");
});

test("Knative's windows are means of the seconds so far, up to their length", () => {
  const window = new KnativeWindow(3);
  assert.equal(window.mean, 0);
  for (const value of [6, 3, 3, 0]) window.add(value);
  assert.equal(window.mean, 2);
  window.clear();
  window.add(5);
  assert.equal(window.mean, 5);
});
