// The scheduler in a simulated world, seed by seed. A failing seed is printed; run it alone with
// `node server/sim/scheduler/run-seed.ts <seed>`.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ahead } from "#test/support/ahead.ts";
import { countOf, drawCases } from "#test/support/drawn-cases.ts";
import { drawnOf, kindOf, unseenSeed } from "#test/support/drawn-seed.ts";
import { Violation } from "./invariants.ts";
import type { Mutation } from "./sim-platform.ts";
import { runWorld } from "./world.ts";
import type { WorldReport } from "./world-options.ts";

const seeds = countOf({ what: "known seeds", complete: 60, short: 15 });
const steps = 80;
const newSeeds = countOf({ what: "new seeds", complete: 20, short: 5 });

async function firstViolation(options: {
  mutation: Mutation;
  isLimited?: boolean;
  isFailing?: boolean;
  isStopping?: boolean;
  isCrowded?: boolean;
}): Promise<Violation | undefined> {
  for (let seed = 1; seed <= 60; seed++) {
    try {
      await runWorld({ seed, steps: 2 * steps, ...options });
    } catch (error) {
      if (error instanceof Violation) return error;
      throw error;
    }
  }
  return undefined;
}

const failing = await ahead(async () => {
  let restarts = 0;
  for (let seed = 1; seed <= newSeeds; seed++) {
    try {
      restarts += (await runWorld({ seed, steps, isFailing: true })).restarts;
    } catch (error) {
      throw new Error(`seed ${seed} with ${steps} steps, failing`, { cause: error });
    }
  }
  return restarts;
});
const crowded = await ahead(async () => {
  const total = { reclaimed: 0, cuts: 0 };
  for (let seed = 1; seed <= seeds; seed++) {
    try {
      const { reclaimed, cuts } = await runWorld({ seed, steps, isCrowded: true });
      total.reclaimed += reclaimed;
      total.cuts += cuts;
    } catch (error) {
      throw new Error(`seed ${seed} with ${steps} steps, crowded`, { cause: error });
    }
  }
  return total;
});
const usual = await ahead(() => runSeeds({ isLimited: false, isStopping: false }));
const limited = await ahead(() => runSeeds({ isLimited: true, isStopping: false }));
const stopping = await ahead(() => runSeeds({ isLimited: false, isStopping: true }));
const firstNew = unseenSeed();
const untried = await ahead(async () => {
  for (let seed = firstNew; seed < firstNew + newSeeds; seed++) {
    const { events, ...drawn } = drawnOf(seed);
    try {
      await runWorld({ ...drawn, steps: events });
    } catch (error) {
      const command = `node server/sim/scheduler/run-seed.ts ${seed} ${events}${kindOf(drawn)}`;
      throw new Error(command, { cause: error });
    }
  }
});

/** Guards that are taken out, and what the simulation says then. */
const mutations: readonly {
  mutation: Mutation;
  message: RegExp;
  isLimited?: true;
  isFailing?: true;
  isStopping?: true;
  isCrowded?: true;
}[] = [
  { mutation: "limits are not seen", message: /where \d may/, isLimited: true },
  { mutation: "outages are not seen", message: /while the backend did not answer/ },
  { mutation: "busy replicas look idle", message: /was ended \(asked\)/ },
  {
    mutation: "waiting calls are not seen",
    message: /no replica came|waits at rest|within its cooldown/,
  },
  { mutation: "starts are not recorded", message: /has no row|without a row/ },
  { mutation: "ends are not recorded", message: /rows and replicas differ|at most \d allowed/ },
  { mutation: "restarts are not seen", message: /has outlived a restart/ },
  { mutation: "stops are not seen", message: /although it is stopped/, isStopping: true },
  { mutation: "one replica above the maximum", message: /at most \d allowed/ },
  { mutation: "releases that leave are not kept", message: /needed for its share/ },
  { mutation: "a roll-out gets all calls at once", message: /needed for its share/ },
  { mutation: "failed starts are forgotten", message: /failed in a row/, isFailing: true },
  { mutation: "cooldowns are forgotten", message: /outlives the cooldown/ },
  { mutation: "orders to end are forgotten", message: /is said to have ended/, isCrowded: true },
  { mutation: "rows of others are taken for its own", message: /row of another platform/ },
];

const broken: {
  readonly mutation: Mutation;
  readonly message: RegExp;
  readonly found: () => Violation | undefined;
}[] = [];
for (const { mutation, message, ...kind } of drawCases(mutations, {
  what: "broken guards",
  max: 3,
})) {
  broken.push({
    mutation,
    message,
    found: await ahead(() => firstViolation({ mutation, ...kind })),
  });
}

test("no seed breaks a promise where most starts fail", () => {
  assert.ok(failing() >= newSeeds, `only ${failing()} restarts`);
});

test("no seed breaks a promise where the pool is small and some apps are protected, also across restarts", () => {
  const { reclaimed, cuts } = crowded();
  assert.ok(reclaimed > seeds / 4, `reclaimed: only ${reclaimed}`);
  assert.ok(cuts > 0, "no platform restarted while a replica made way");
});

test("no seed breaks a promise", () => allHappen(usual()));

test("no seed breaks a promise at the limit of a project", () => allHappen(limited()));

test("no seed breaks a promise while people stop and start apps", () => allHappen(stopping()));

test("seeds that nobody has tried break no promise", (t) => {
  t.diagnostic(`from seed ${firstNew} on`);
  untried();
});

describe("a broken guard is noticed", () => {
  for (const { mutation, message, found } of broken) {
    test(`the simulation fails when ${mutation}`, () => {
      assert.match(found()?.message ?? "no seed failed", message);
    });
  }
});

function allHappen(total: Partial<WorldReport>): void {
  for (const [name, count] of Object.entries(total))
    assert.ok(count > seeds / 4, `${name}: only ${count}`);
}

async function runSeeds(kind: {
  readonly isLimited: boolean;
  readonly isStopping: boolean;
}): Promise<Partial<WorldReport>> {
  const counts = {
    served: 0,
    refused: 0,
    crashed: 0,
    starts: 0,
    deploys: 0,
    steps: 0,
    takenBack: 0,
    restarts: 0,
    replacements: 0,
    outages: 0,
  };
  const total: Partial<WorldReport> = kind.isStopping ? { ...counts, stops: 0 } : counts;
  for (let seed = 1; seed <= seeds; seed++) {
    try {
      const report = await runWorld({ seed, steps, ...kind });
      for (const name of Object.keys(total) as (keyof WorldReport)[])
        total[name] = (total[name] ?? 0) + report[name];
    } catch (error) {
      throw new Error(`seed ${seed} with ${steps} steps${kindOf(kind)}`, { cause: error });
    }
  }
  return total;
}
