// Packing keeps its promises whatever starts, ends and waits.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { ReplicaId } from "#lib/ids.ts";
import { countCards, type CardPool } from "./cards.ts";
import { choosePool, couldFit, freeAfter, freeOf, type PoolWish } from "./choose-pool.ts";
import { Placement } from "./placement.ts";
import type { PoolClaim, PoolRequest } from "./pool.ts";

const types = ["ADA_L4", "HOPPER_H100"] as const;

const pools: fc.Arbitrary<readonly CardPool[]> = fc
  .array(
    fc.record({
      provider: fc.constantFrom(null, "aws", "local"),
      region: fc.constantFrom(null, "eu-1", "us-1"),
      tier: fc.constantFrom("protected" as const, "interruptible" as const),
      takesCpu: fc.boolean(),
      cores: fc.integer({ min: 1, max: 16 }),
      memoryGb: fc.integer({ min: 1, max: 64 }),
      overcommit: fc.constantFrom(1, 1, 3),
      cards: fc.array(fc.record({ compute: fc.constantFrom(...types), isUsable: fc.boolean() }), {
        maxLength: 4,
      }),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((list) =>
    list.map(({ cards, ...pool }, at) => ({
      ...pool,
      name: `pool-${at}`,
      gpus: cards.map((card, index) => ({ ...card, id: `card-${at}-${index}`, memoryGb: 24 })),
    })),
  );

const wish: fc.Arbitrary<PoolWish> = fc
  .record({
    compute: fc.oneof(
      fc.constant<readonly string[]>(["CPU"]),
      fc.shuffledSubarray([...types], { minLength: 1 }) as fc.Arbitrary<readonly string[]>,
    ),
    gpuCount: fc.integer({ min: 1, max: 3 }),
    cpuCores: fc.constantFrom(0.25, 1, 2, 4.5),
    memoryGb: fc.constantFrom(0.05, 0.1, 2, 8),
    tier: fc.constantFrom("protected", "interruptible"),
    provider: fc.constantFrom(null, "aws", "local"),
    region: fc.constantFrom(null, "eu-1", "global"),
  })
  .map(({ compute, gpuCount, ...rest }) =>
    compute.map((type) => ({ ...rest, compute: type, gpuCount: type === "CPU" ? 0 : gpuCount })),
  );

const cpu: PoolRequest = {
  compute: "CPU",
  gpuCount: 0,
  cpuCores: 1,
  memoryGb: 1,
  tier: "interruptible",
  provider: null,
  region: null,
};

const machine: CardPool = {
  name: "machine",
  provider: null,
  region: null,
  tier: "protected",
  takesCpu: true,
  cores: 4,
  memoryGb: 16,
  overcommit: 1,
  gpus: [],
};

function l4(count: number): CardPool["gpus"] {
  return Array.from({ length: count }, (_, index) => ({
    id: `l4-${index}`,
    compute: "ADA_L4",
    memoryGb: 24,
    isUsable: true,
  }));
}

/** Starts and ends drawn replicas; the claims of those that exist then. */
function play(
  given: readonly CardPool[],
  events: readonly { readonly wish: PoolWish; readonly ends: number }[],
) {
  const placement = new Placement(given);
  events.forEach(({ wish: [request], ends }, at) => {
    if (request !== undefined) placement.hold(`replica-${at}` as ReplicaId, request);
    const existing = [...placement.claims.keys()];
    const ending = existing[ends % 5];
    if (ending !== undefined) placement.release(ending);
  });
  return placement;
}

const events = fc.array(fc.record({ wish, ends: fc.nat({ max: 9 }) }), { maxLength: 30 });

describe("packing", () => {
  test("never gives out more cores, memory or GPUs than a pool has, and no GPU to two replicas", () => {
    fc.assert(
      fc.property(pools, events, (given, drawn) => {
        const played = play(given, drawn);
        const claims = [...played.claims.values()];
        for (const pool of given) {
          const own = claims.filter((claim) => claim.pool === pool.name);
          const sum = (of: (claim: PoolClaim) => number): number =>
            own.reduce((all, claim) => all + of(claim), 0);
          const capped = (amount: number, max: number): number =>
            pool.overcommit > 1 ? Math.min(amount, max) : amount;
          assert.ok(
            sum(({ cpuCores }) => capped(cpuCores, pool.cores)) <=
              pool.cores * pool.overcommit + 1e-9,
          );
          assert.ok(
            sum(({ memoryGb }) => capped(memoryGb, pool.memoryGb)) <=
              pool.memoryGb * pool.overcommit + 1e-9,
          );
          const usable = pool.gpus.filter(({ isUsable }) => isUsable).map(({ id }) => id);
          const held = [...played.held.values()].filter((claim) => claim.pool === pool.name);
          assert.ok(held.every(({ gpus }) => gpus.every((id) => usable.includes(id))));
        }
        const cards = [...played.held.values()].flatMap(({ gpus }) => gpus);
        assert.equal(new Set(cards).size, cards.length);
      }),
    );
  });

  test("a replica gets what it asked for where it may be, of the first type that is free", () => {
    fc.assert(
      fc.property(pools, events, wish, (given, drawn, wanted) => {
        const { free } = play(given, drawn);
        const claim = choosePool(free, wanted, []);
        const chosen = wanted.findIndex(({ compute }) => compute === claim?.compute);
        const earlier = chosen < 0 ? wanted : wanted.slice(0, chosen);
        for (const request of earlier) assert.equal(choosePool(free, [request], []), null);
        if (claim === null) return;
        const pool = given.map(countCards).find(({ name }) => name === claim.pool);
        const request = wanted[chosen];
        assert.ok(pool !== undefined && request !== undefined && couldFit(pool, request));
        assert.equal(claim.gpuCount, request.gpuCount);
        assert.ok(
          request.provider === null || pool.provider === null || pool.provider === request.provider,
        );
        assert.ok(["global", null, pool.region].includes(request.region) || pool.region === null);
        assert.ok(request.tier === "interruptible" || pool.tier === "protected");
      }),
    );
  });

  test("everything is free again when all replicas are gone, in whichever order and however they were found", () => {
    fc.assert(
      fc.property(pools, events, (given, drawn) => {
        const first = play(given, drawn);
        // The next process of the platform, which finds what runs.
        const next = new Placement(given);
        for (const [replicaId, claim] of first.held) next.keep(replicaId, claim);
        assert.deepEqual(next.free, first.free);
        for (const replicaId of [...first.held.keys()].toReversed()) next.release(replicaId);
        assert.deepEqual(next.free, freeOf(given.map(countCards), []));
      }),
    );
  });

  test("whoever is ahead gets the same with others behind it as alone, now or later", () => {
    fc.assert(
      fc.property(pools, events, wish, wish, (given, drawn, first, second) => {
        const { free } = play(given, drawn);
        const claim = choosePool(free, second, [first]);
        if (claim === null) return;
        const before = choosePool(free, first, []);
        const after = choosePool(freeAfter(free, { ended: [], begun: [claim] }), first, []);
        assert.equal(after === null, before === null);
      }),
    );
  });
});

test("a replica that waits for a GPU holds up neither those without one nor other types, but who wants its GPUs", () => {
  const pool: CardPool = {
    ...machine,
    gpus: [...l4(2), { id: "h", compute: "HOPPER_H100", memoryGb: 80, isUsable: true }],
  };
  const gpu = (count: number, compute = "ADA_L4"): PoolRequest => ({
    ...cpu,
    compute,
    gpuCount: count,
  });
  const free = freeOf([countCards(pool)], [{ ...gpu(1), pool: "machine" }]);
  const ahead: PoolWish[] = [[gpu(2)]];
  assert.equal(choosePool(free, [gpu(1)], ahead), null);
  assert.equal(choosePool(free, [gpu(1)], [])?.gpuCount, 1);
  assert.equal(choosePool(free, [gpu(1, "HOPPER_H100")], ahead)?.compute, "HOPPER_H100");
  assert.equal(choosePool(free, [cpu], ahead)?.pool, "machine");
});

test("a replica goes where it is least in the way: without GPU, to reclaimable machines, and where GPUs are left over", () => {
  const withCards: CardPool = { ...machine, name: "cards", gpus: l4(4) };
  const fewer: CardPool = {
    ...machine,
    name: "fewer",
    gpus: [{ id: "single", compute: "ADA_L4", memoryGb: 24, isUsable: true }],
  };
  const spot: CardPool = { ...machine, name: "spot", tier: "interruptible", gpus: [] };
  const gpu = { ...cpu, compute: "ADA_L4", gpuCount: 1 };
  const poolOf = (given: readonly CardPool[], request: PoolRequest) =>
    choosePool(freeOf(given.map(countCards), []), [request], [])?.pool;
  assert.equal(poolOf([withCards, machine], cpu), "machine");
  assert.equal(poolOf([machine, spot], cpu), "spot");
  assert.equal(poolOf([spot, machine], { ...cpu, tier: "protected" }), "machine");
  assert.equal(poolOf([withCards, fewer], gpu), "fewer");
  assert.equal(poolOf([withCards, fewer], { ...gpu, gpuCount: 2 }), "cards");
});

test("where cores are shared, an app that asks for more than there are counts as all of them", () => {
  const placement = new Placement([{ ...machine, cores: 2, overcommit: 100 }]);
  const request = { ...cpu, cpuCores: 48 };
  for (let count = 0; count < 100; count++)
    assert.ok(placement.hold(`replica-${count}` as ReplicaId, request));
  assert.equal(placement.capacity(request, []), "later");
  assert.equal(placement.capacity({ ...cpu, cpuCores: 201 }, []), "never");
});

test("a card that is lost is not given out and does not make an app impossible; one that is claimed stays with its replica", () => {
  const placement = new Placement([{ ...machine, gpus: l4(2) }]);
  const gpu = { ...cpu, compute: "ADA_L4", gpuCount: 1 };
  let freed = 0;
  placement.onFree(() => freed++);
  assert.deepEqual(placement.hold("first" as ReplicaId, gpu)?.gpus, ["l4-0"]);
  assert.deepEqual(
    placement.hold("first" as ReplicaId, gpu)?.gpus,
    ["l4-0"],
    "asking again changes nothing",
  );
  placement.setPools([{ ...machine, gpus: l4(2).map((card) => ({ ...card, isUsable: false })) }]);
  assert.deepEqual(
    [placement.capacity(gpu, []), placement.capacity({ ...gpu, gpuCount: 3 }, [])],
    ["later", "never"],
  );
  placement.setPools([{ ...machine, gpus: l4(2) }]);
  assert.deepEqual(placement.hold("second" as ReplicaId, gpu)?.gpus, ["l4-1"]);
  assert.equal(placement.capacity(gpu, []), "later");
  placement.release("first" as ReplicaId);
  placement.release("first" as ReplicaId);
  assert.equal(placement.capacity(gpu, []), "now");
  assert.equal(freed, 3, "those who wait hear of each chance once");
});

test("a card that its replica has is nobody else's, whether it answers and whichever pool it is in now", () => {
  const gpu = { ...cpu, compute: "ADA_L4", gpuCount: 1 };
  const other: CardPool = { ...machine, name: "other" };
  const placement = new Placement([{ ...machine, gpus: l4(2) }, other]);
  const { provider: _provider, region: _region, ...asked } = gpu;
  const claim = { ...asked, pool: "machine" };
  assert.deepEqual(placement.reserve("first" as ReplicaId, gpu, []), claim);
  assert.deepEqual(placement.claims.get("first" as ReplicaId), claim);
  const [lost, ...rest] = l4(2);
  assert.ok(lost);
  placement.setPools([{ ...machine, gpus: [{ ...lost, isUsable: false }, ...rest] }, other]);
  assert.equal(placement.claims.get("first" as ReplicaId)?.gpuCount, 0, "nothing is free after it");
  assert.deepEqual(
    placement.all.map(({ gpus }) => gpus),
    [[{ compute: "ADA_L4", memoryGb: 24, count: 2, usable: 1 }], []],
  );
  assert.deepEqual([...(placement.free[0]?.gpus ?? [])], [["ADA_L4", 1]]);
  placement.setPools([machine, { ...other, gpus: l4(2) }]);
  assert.deepEqual(
    placement.free.map(({ gpus }) => [...gpus]),
    [[], [["ADA_L4", 1]]],
  );
  assert.deepEqual(placement.hold("second" as ReplicaId, gpu)?.gpus, ["l4-1"]);
  assert.equal(placement.reserve("third" as ReplicaId, gpu, []), null);
  assert.equal(placement.capacity(gpu, []), "later");
});
