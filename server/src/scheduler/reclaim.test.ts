// Who makes way for protected replicas: never a protected one, nobody without need, and nobody
// twice.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  choosePool,
  freeAfter,
  freeOf,
  type FreePool,
  type PoolWish,
} from "#drivers/pools/choose-pool.ts";
import type { Pool, PoolRequest } from "#drivers/pools/pool.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import { chooseReclaimed, type ClaimingReplica, type ProtectedWish } from "./reclaim.ts";

const pools: readonly Pool[] = [4, 2].map((count, at) => ({
  name: `pool-${at}`,
  provider: null,
  region: null,
  tier: "protected",
  takesCpu: true,
  overcommit: 1,
  cores: 8,
  memoryGb: 32,
  gpus: [{ compute: "ADA_L4", memoryGb: 24, count, usable: count }],
}));

const request: fc.Arbitrary<PoolRequest> = fc
  .record({
    gpuCount: fc.integer({ min: 0, max: 3 }),
    cpuCores: fc.constantFrom(1, 2, 4),
    memoryGb: fc.constantFrom(2, 8),
  })
  .map((given) => ({
    ...given,
    provider: null,
    region: null,
    tier: "interruptible",
    compute: given.gpuCount > 0 ? "ADA_L4" : "CPU",
  }));

const oneCard: PoolRequest = {
  compute: "ADA_L4",
  gpuCount: 1,
  cpuCores: 1,
  memoryGb: 1,
  tier: "interruptible",
  provider: null,
  region: null,
};

const drawnReplica = fc.record({
  request,
  tier: fc.constantFrom("protected", "interruptible", "interruptible"),
  app: fc.integer({ min: 0, max: 3 }),
  isDraining: fc.boolean(),
  isTrial: fc.boolean(),
  running: fc.nat({ max: 3 }),
});

const replicas: fc.Arbitrary<ClaimingReplica[]> = fc
  .array(drawnReplica, { maxLength: 16 })
  .map((drawn) => {
    let free: readonly FreePool[] = freeOf(pools, []);
    return drawn.flatMap(({ request: wanted, tier, app, ...rest }, at) => {
      const replicaId = `replica-${at}` as ReplicaId;
      const claim = choosePool(free, [{ ...wanted, tier }], []);
      if (claim === null) return [];
      free = freeAfter(free, { ended: [], begun: [claim] });
      return [{ ...rest, replicaId, claim, appId: `app-${app}` as AppId, beganAtMs: at }];
    });
  });

const waiting: fc.Arbitrary<ProtectedWish[]> = fc.array(
  fc.record({ request, app: fc.integer({ min: 0, max: 3 }) }).map(({ request: wanted, app }) => ({
    appId: `app-${app}` as AppId,
    wish: [{ ...wanted, tier: "protected" }],
  })),
  { minLength: 1, maxLength: 3 },
);

/** Which of the wishes fit, one after the other. */
function fitting(left: readonly ClaimingReplica[], wishes: readonly PoolWish[]): boolean[] {
  const claims = left.map(({ claim }) => claim);
  const ahead: PoolWish[] = [];
  return wishes.map((wish) => {
    const claim = choosePool(freeOf(pools, claims), wish, ahead);
    if (claim === null) ahead.push(wish);
    else claims.push(claim);
    return claim !== null;
  });
}

/** Whose end is chosen, where nobody else has anything of the pools. */
function reclaimed(
  having: readonly ClaimingReplica[],
  waiting: readonly ProtectedWish[],
): ReplicaId[] {
  const free = freeOf(
    pools,
    having.map(({ claim }) => claim),
  );
  return chooseReclaimed({ pools, free, replicas: having, waiting });
}

test("neither a protected replica nor a trial nor one of the same app nor one that ends already makes way", () => {
  fc.assert(
    fc.property(replicas, waiting, (having, wanted) => {
      const going = reclaimed(having, wanted.slice(0, 1));
      for (const replicaId of going) {
        const one = having.find((replica) => replica.replicaId === replicaId);
        assert.ok(one && one.claim.tier === "interruptible" && !one.isTrial && !one.isDraining);
        assert.notEqual(one.appId, wanted[0]?.appId);
      }
      assert.equal(new Set(going).size, going.length);
    }),
  );
});

test("nobody makes way without need: not where what ends is enough, and not more than are needed", () => {
  fc.assert(
    fc.property(replicas, waiting, (having, [first]) => {
      assert.ok(first);
      const going = reclaimed(having, [first]);
      const staying = having.filter(({ isDraining }) => !isDraining);
      const fits = (spared: ReplicaId | null): boolean =>
        fitting(
          staying.filter(({ replicaId }) => replicaId === spared || !going.includes(replicaId)),
          [first.wish],
        )[0] === true;
      if (fitting(staying, [first.wish])[0] === true) assert.deepEqual(going, []);
      if (going.length > 0) assert.ok(fits(null));
      for (const replicaId of going) assert.ok(!fits(replicaId), "it could have stayed");
    }),
  );
});

test("whoever waits gets enough if interruptible replicas of others could give it, the first of the line first", () => {
  fc.assert(
    fc.property(replicas, waiting, (having, wanted) => {
      const [first] = wanted;
      assert.ok(first);
      const going = reclaimed(having, wanted);
      const mayStay = (one: ClaimingReplica): boolean =>
        !one.isDraining &&
        (one.claim.tier === "protected" || one.isTrial || one.appId === first.appId);
      const [couldFit] = fitting(having.filter(mayStay), [first.wish]);
      const [fits] = fitting(
        having.filter(({ replicaId, isDraining }) => !isDraining && !going.includes(replicaId)),
        [first.wish],
      );
      assert.equal(fits, couldFit);
    }),
  );
});

/**
 * Wishes of apps that want the same: different wishes may fill the pools in another way once more
 * is free.
 */
const waitingForTheSame: fc.Arbitrary<ProtectedWish[]> = fc
  .record({
    request,
    apps: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 4 }),
  })
  .map(({ request: wanted, apps }) =>
    apps.map((app) => ({ appId: `app-${app}` as AppId, wish: [{ ...wanted, tier: "protected" }] })),
  );

test("once those chosen are ending, nobody else is chosen for a line of equal wishes", () => {
  fc.assert(
    fc.property(replicas, waitingForTheSame, (having, wanted) => {
      const going = reclaimed(having, wanted);
      const after = having.map((one) => ({
        ...one,
        isDraining: one.isDraining || going.includes(one.replicaId),
      }));
      assert.deepEqual(reclaimed(after, wanted), []);
    }),
  );
});

test("idle replicas make way before busy ones, even if they are more, and the younger before the older", () => {
  const claim = (gpuCount: number) => ({
    compute: "ADA_L4",
    cpuCores: 1,
    memoryGb: 1,
    tier: "interruptible",
    pool: "pool-0",
    gpuCount,
  });
  const one = (
    id: string,
    gpuCount: number,
    running: number,
    beganAtMs: number,
  ): ClaimingReplica => ({
    replicaId: id as ReplicaId,
    appId: "app-1" as AppId,
    claim: claim(gpuCount),
    isDraining: false,
    isTrial: false,
    running,
    beganAtMs,
  });
  const having = [
    one("busy", 2, 1, 0),
    one("older", 1, 0, 1),
    one("younger", 1, 0, 2),
    {
      ...one("elsewhere", 2, 2, 3),
      claim: { ...claim(2), pool: "pool-1" },
    },
  ];
  const wish = (gpuCount: number): ProtectedWish[] => [
    {
      appId: "app-0" as AppId,
      wish: [{ ...oneCard, gpuCount, tier: "protected" }],
    },
  ];
  const chosen = (gpuCount: number): string[] => reclaimed(having, wish(gpuCount));
  assert.deepEqual(chosen(1), ["younger"]);
  assert.deepEqual(chosen(2).toSorted(), ["older", "younger"]);
  assert.deepEqual(chosen(3).toSorted(), ["busy", "younger"]);
  assert.deepEqual(chosen(5), []);
});

test("what others have of a pool, of whom this platform knows nothing, stays theirs", () => {
  const wanted: ProtectedWish[] = [
    { appId: "app-0" as AppId, wish: [{ ...oneCard, gpuCount: 2, tier: "protected" }] },
  ];
  const all = { ...oneCard, gpuCount: 4, pool: "pool-0" };
  const free = freeOf(pools, [all, { ...all, gpuCount: 1, pool: "pool-1" }]);
  const one: ClaimingReplica = {
    replicaId: "mine" as ReplicaId,
    appId: "app-1" as AppId,
    claim: { ...oneCard, pool: "pool-1" },
    isDraining: false,
    isTrial: false,
    running: 0,
    beganAtMs: 0,
  };
  const given = { pools, free, waiting: wanted };
  assert.deepEqual(chooseReclaimed({ ...given, replicas: [] }), []);
  assert.deepEqual(chooseReclaimed({ ...given, replicas: [one] }), ["mine"]);
});
