// What the owner of an app is told that a replica lacks.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { choosePool, freeOf, type PoolWish } from "./choose-pool.ts";
import type { Pool, PoolClaim, PoolRequest } from "./pool.ts";
import { whyWaiting } from "./why-waiting.ts";

const gpu: PoolRequest = {
  compute: "ADA_L4",
  gpuCount: 1,
  cpuCores: 2,
  memoryGb: 4,
  tier: "interruptible",
  provider: null,
  region: null,
};
const cpu: PoolRequest = { ...gpu, compute: "CPU", gpuCount: 0 };

function pool(
  given: Partial<Pool> & { readonly cards?: number; readonly lost?: number } = {},
): Pool {
  const { cards = 0, lost = 0, ...rest } = given;
  const all = { compute: "ADA_L4", memoryGb: 24, count: cards + lost, usable: cards };
  return {
    name: "rack",
    provider: null,
    region: null,
    tier: "protected",
    takesCpu: true,
    cores: 8,
    memoryGb: 32,
    overcommit: 1,
    gpus: all.count === 0 ? [] : [all],
    ...rest,
  };
}

/** What a replica has of the rack. */
function has(claim: Partial<PoolClaim> = {}): PoolClaim {
  return {
    pool: "rack",
    gpuCount: 0,
    compute: "ADA_L4",
    tier: "protected",
    cpuCores: 1,
    memoryGb: 1,
    ...claim,
  };
}

const patch = "(PATCH …/apps/{app})";
const inUse = (what: string): string =>
  `All of the platform's ${what} is in use; a replica starts when some is free again.`;
const check = `The operator has to check the cards of the machine; other types can be listed in compute ${patch}.`;

type Case = {
  readonly pools: readonly Pool[];
  readonly claims?: readonly PoolClaim[];
  readonly wish: PoolWish;
  readonly ahead?: readonly PoolWish[];
  readonly says: string;
};

const cases: Readonly<Record<string, Case>> = {
  "all cards are in use": {
    pools: [pool({ cards: 1 })],
    claims: [has({ gpuCount: 1 })],
    wish: [gpu],
    says: inUse("ADA_L4"),
  },
  "those that answer are": {
    pools: [pool({ cards: 1, lost: 1 })],
    claims: [has({ gpuCount: 1 })],
    wish: [gpu],
    says: inUse("ADA_L4 that answers"),
  },
  "some are free, but too few": {
    pools: [pool({ cards: 3 })],
    claims: [has({ gpuCount: 1 })],
    wish: [{ ...gpu, gpuCount: 3 }],
    says: `A replica needs 3 ADA_L4, of which only 2 are free; it starts when there is enough. One that needs less could start sooner: gpuCount ${patch}.`,
  },
  "none was found": {
    pools: [pool({ lost: 2 })],
    wish: [gpu],
    says: `None of the platform's ADA_L4 answers; a replica starts when one does. ${check}`,
  },
  "too few answer": {
    pools: [pool({ cards: 1, lost: 1 })],
    claims: [has({ gpuCount: 1 })],
    wish: [{ ...gpu, gpuCount: 2 }],
    says: `A replica needs 2 ADA_L4, of which only 1 answers; it starts when there is enough. ${check}`,
  },
  "a card is free, but the memory beside it is not": {
    pools: [pool({ cards: 2 })],
    claims: [has({ memoryGb: 30, gpuCount: 1 })],
    wish: [gpu],
    says: `A replica needs 4 GB of memory, of which only 2 are free where ADA_L4 is free; it starts when there is enough. One that needs less could start sooner: memory ${patch}.`,
  },
  "a card is free, but no core": {
    pools: [pool({ cards: 2 })],
    claims: [has({ cpuCores: 8, compute: "CPU" })],
    wish: [gpu],
    says: "A replica needs 2 cores, of which none is free where ADA_L4 is free; it starts when there is enough.",
  },
  "cores and memory of several pools": {
    pools: [pool({ region: "eu-1" }), pool({ name: "other", region: "eu-1" })],
    claims: [
      has({ cpuCores: 7, memoryGb: 30 }),
      has({ pool: "other", cpuCores: 6.5, memoryGb: 31 }),
    ],
    wish: [{ ...cpu, region: "eu-1" }],
    says: `A replica with region eu-1 needs 2 cores, of which only 1.5 are free, and 4 GB of memory, of which only 2 are free in one place; it starts when there is enough. One that needs less could start sooner: cpu, memory ${patch}.`,
  },
  "only pools of another tier have it": {
    pools: [pool({ cards: 1 }), pool({ name: "spot", tier: "interruptible", cards: 1 })],
    claims: [has({ gpuCount: 1 })],
    wish: [{ ...gpu, tier: "protected" }],
    says: `${inUse("ADA_L4 with computeTier protected")} Without computeTier protected one could start now ${patch}.`,
  },
  "only another region has it": {
    pools: [pool({ cards: 1, region: "eu-1" }), pool({ name: "far", region: "us-1", cards: 1 })],
    claims: [has({ gpuCount: 1 })],
    wish: [{ ...gpu, region: "eu-1" }],
    says: `${inUse("ADA_L4 with region eu-1")} Without region eu-1 one could start now ${patch}.`,
  },
  "only another provider and tier have it": {
    pools: [
      pool({ cards: 1, provider: "local" }),
      pool({ name: "far", provider: "aws", tier: "interruptible", cards: 1 }),
    ],
    claims: [has({ gpuCount: 1 })],
    wish: [{ ...gpu, provider: "local", tier: "protected" }],
    says: `${inUse("ADA_L4 with provider local")} Without computeTier protected and provider local one could start now ${patch}.`,
  },
  "a free card is where the replica does not fit": {
    pools: [pool({ cards: 1 }), pool({ name: "small", cores: 1, cards: 1 })],
    claims: [has({ gpuCount: 1 })],
    wish: [gpu],
    says: "A replica needs 1 ADA_L4, of which none is free in a place that suits it; it starts when there is enough.",
  },
  "each place lacks something else": {
    pools: [pool({ cards: 1 }), pool({ name: "full", cards: 1 }), pool({ name: "dark", lost: 1 })],
    claims: [has({ gpuCount: 1 }), has({ pool: "full", memoryGb: 32, compute: "CPU" })],
    wish: [gpu],
    says: "A replica waits: at rack it needs 1 ADA_L4, of which none is free; at full it needs 4 GB of memory, of which none is free where ADA_L4 is free; at dark it needs 1 ADA_L4, of which none answers. It starts when one place has enough.",
  },
  "each type lacks something else": {
    pools: [
      pool({
        gpus: [
          { compute: "HOPPER_H100", memoryGb: 80, count: 1, usable: 0 },
          { compute: "ADA_L4", memoryGb: 24, count: 1, usable: 1 },
        ],
      }),
    ],
    claims: [has({ gpuCount: 1 })],
    wish: [{ ...gpu, compute: "HOPPER_H100" }, gpu],
    says: "A replica waits: it needs 1 ADA_L4, of which none is free; or it needs 1 HOPPER_H100, of which none answers. It starts when one place has enough.",
  },
  "what is free is for others": {
    pools: [pool({ cards: 2 })],
    claims: [has({ gpuCount: 1 })],
    wish: [gpu],
    ahead: [[{ ...gpu, gpuCount: 2 }]],
    says: "What is free is for replicas that come first: protected ones, then those that have waited longer.",
  },
  "a driver has a reason of its own": {
    pools: [pool({ cards: 1 })],
    wish: [gpu],
    says: inUse("ADA_L4"),
  },
};

describe("a waiting replica names what it lacks", () => {
  for (const [name, { pools, claims = [], wish, ahead = [], says }] of Object.entries(cases)) {
    test(name, () => {
      const free = freeOf(pools, claims);
      if (!name.startsWith("a driver"))
        assert.equal(choosePool(free, wish, ahead), null, "it has to wait");
      assert.equal(whyWaiting(free, wish, ahead), says);
    });
  }
});
