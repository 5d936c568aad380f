// How much room the limits of a project leave, and what must go above them.
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, test } from "node:test";
import type { ReplicaId } from "#lib/ids.ts";
import {
  beyondLimits,
  neverFits,
  slotsLeft,
  type CountedReplica,
  type Leaving,
  type ReplicaLimits,
} from "./allowance.ts";

const limits = (replicasMax: number | null, gpusMax: number | null): ReplicaLimits => ({
  name: 'The plan "hobby"',
  replicasMax,
  gpusMax,
});
const replica = (name: string, given: Partial<CountedReplica> = {}): CountedReplica => ({
  replicaId: name as ReplicaId,
  isStarting: false,
  gpus: 0,
  running: 0,
  beganAtMs: 0,
  ...given,
});

const noneLeaving: Leaving = { replicas: 0, gpus: 0 };
const slots = (
  of: ReplicaLimits,
  counted: readonly CountedReplica[],
  gpusEach: number,
  leaving = noneLeaving,
): number => slotsLeft(of, { counted, leaving }, gpusEach);

describe("slots that are left", () => {
  test("are not taken by replicas that are leaving, until these are as many as there may be", () => {
    const some = [replica("a"), replica("b")];
    const replicas = [0, 5, 6, 7, 8, 9].map((many) =>
      slots(limits(5, null), some, 0, { replicas: many, gpus: 0 }),
    );
    assert.deepEqual(replicas, [3, 3, 2, 1, 0, 0]);
    const gpus = [0, 4, 5, 6, 8].map((many) =>
      slots(limits(null, 4), [], 1, { replicas: 9, gpus: many }),
    );
    assert.deepEqual(gpus, [4, 4, 3, 2, 0]);
  });

  test("the tighter limit counts, and an app without GPUs needs none", () => {
    const some = [replica("a", { gpus: 2 }), replica("b")];
    assert.equal(slots(limits(null, null), some, 1), Number.POSITIVE_INFINITY);
    assert.equal(slots(limits(5, null), some, 1), 3);
    assert.equal(slots(limits(5, 3), some, 1), 1);
    assert.equal(slots(limits(5, 3), some, 2), 0);
    assert.equal(slots(limits(5, 2), some, 0), 3);
    assert.equal(slots(limits(1, 0), some, 0), 0);
  });

  test("a replica of more GPUs than there may be never fits", () => {
    assert.equal(neverFits(limits(null, null), 8), undefined);
    assert.equal(neverFits(limits(null, 8), 8), undefined);
    assert.match(
      neverFits(limits(null, 4), 8) ?? "",
      /^The plan "hobby" allows the project 4 GPUs, and a replica of/,
    );
    assert.match(neverFits(limits(null, 0), 1) ?? "", /^The plan "hobby" allows no GPUs, /);
  });
});

describe("above a lowered limit", () => {
  test("idle replicas go first, then the youngest, and none that starts", () => {
    const some = [
      replica("busy and old", { running: 1, beganAtMs: 1 }),
      replica("busy and young", { running: 1, beganAtMs: 5 }),
      replica("idle", { beganAtMs: 2 }),
      replica("starts", { isStarting: true, beganAtMs: 9 }),
    ];
    assert.deepEqual([...beyondLimits(limits(4, null), some)], []);
    assert.deepEqual([...beyondLimits(limits(3, null), some)], ["idle"]);
    assert.deepEqual([...beyondLimits(limits(2, null), some)], ["idle", "busy and young"]);
    assert.equal(beyondLimits(limits(1, null), some).size, 3);
  });

  test("for GPUs only what has some goes", () => {
    const some = [replica("cpu"), replica("gpu", { gpus: 1, running: 3 })];
    assert.deepEqual([...beyondLimits(limits(null, 0), some)], ["gpu"]);
  });

  test("what stays is within the limits but for what starts, and no more goes than must", () => {
    const replicas = fc.array(
      fc.record({
        gpus: fc.nat(4),
        running: fc.nat(2),
        beganAtMs: fc.nat(100),
        isStarting: fc.boolean(),
      }),
      { maxLength: 12 },
    );
    const max = fc.option(fc.nat(10));
    fc.assert(
      fc.property(replicas, max, max, (given, replicasMax, gpusMax) => {
        const counted = given.map((one, index) => replica(`r${index}`, one));
        const going = beyondLimits(limits(replicasMax, gpusMax), counted);
        const kept = counted.filter(({ replicaId }) => !going.has(replicaId));
        const gpus = kept.reduce((sum, one) => sum + one.gpus, 0);
        const isWithin = kept.length <= (replicasMax ?? Infinity) && gpus <= (gpusMax ?? Infinity);
        assert.ok(
          isWithin ||
            kept.every((one) => one.isStarting || (gpus > (gpusMax ?? Infinity) && one.gpus === 0)),
        );
        if (going.size === 0) return;
        const left = slots(limits(replicasMax, null), kept, 0);
        assert.ok(left === 0 || gpusMax !== null, "a place that was freed was needed");
      }),
    );
  });
});
