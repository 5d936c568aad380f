// Async runs in a simulated world over a real database, seed by seed. A failing seed is printed
// with what happened to the run; repeat it, or run as many as wanted, with `node
// server/sim/runs/run-seeds.ts <first> [count]`.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { countOf, drawCases } from "#test/support/drawn-cases.ts";
import { drawnOf, unseenSeed } from "#test/support/drawn-seed.ts";
import type { WithAfter } from "#test/support/clean-last.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { templateName } from "#test/support/test-server.ts";
import type { Mutation } from "./faults.ts";
import { Violation } from "./ledger.ts";
import { SimDatabase } from "./sim-database.ts";
import { runWorld } from "./world.ts";

const events = 40;
const knownSeeds = 5;
/**
 * A handful, so that the tests of all parts end in time on any machine; `series.ts` runs thousands.
 */
const newSeeds = countOf({ what: "new seeds", complete: 3, short: 1 });

async function simDatabase(t: WithAfter): Promise<SimDatabase> {
  const database = await SimDatabase.open(await emptyDatabase(t, { template: templateName }));
  t.after(() => database.close());
  return database;
}

async function firstViolation(t: WithAfter, mutation: Mutation): Promise<Violation | undefined> {
  const database = await simDatabase(t);
  for (let seed = 1; seed <= 12; seed++) {
    try {
      await runWorld({ database, seed, events, mutation });
    } catch (error) {
      if (error instanceof Violation) return error;
      throw error;
    }
  }
  return undefined;
}

test("known seeds break no promise, and all that may happen happens in them", async (t) => {
  const database = await simDatabase(t);
  const total = new Map<string, number>();
  for (let seed = 1; seed <= knownSeeds; seed++) {
    const {
      digest: _,
      timeout: _rare,
      refused: _seldom,
      ...usual
    } = await runWorld({ database, seed, events });
    for (const [name, count] of Object.entries(usual))
      total.set(name, (total.get(name) ?? 0) + count);
  }
  for (const [name, count] of total) assert.ok(count > 0, `${name}: none`);
});

test("seeds that nobody has tried break no promise", async (t) => {
  const database = await simDatabase(t);
  const first = unseenSeed();
  t.diagnostic(`from seed ${first} on`);
  for (let seed = first; seed < first + newSeeds; seed++) {
    const drawn = drawnOf(seed);
    try {
      await runWorld({ database, ...drawn });
    } catch (error) {
      throw new Error(`seed ${seed}: node server/sim/runs/run-seeds.ts ${seed} 1 ${drawn.events}`, {
        cause: error,
      });
    }
  }
});

test("a seed happens in the same way again, whatever happened before it", async (t) => {
  const database = await simDatabase(t);
  const before = await runWorld({ database, seed: 16, events });
  const mutation = "runs are accepted before they are stored";
  await assert.rejects(runWorld({ database, seed: 6, events, mutation }), Violation);
  assert.deepEqual(await runWorld({ database, seed: 16, events }), before);
});

describe("a broken guard is noticed", () => {
  const mutations: readonly { mutation: Mutation; message: RegExp }[] = [
    {
      mutation: "starts that came to nothing give their numbers back",
      message: /has start \d+ for the second time/,
    },
    {
      mutation: "the epoch guard is taken out",
      message: /was written by .* with epoch \d+, but .* holds/,
    },
    { mutation: "lost runs are not taken over", message: /is stuck/ },
    {
      mutation: "starts are written after sending",
      message: /was begun by a replica while it was written down as/,
    },
    {
      mutation: "answers are acknowledged before their ends are stored",
      message: /was acknowledged before/,
    },
    {
      mutation: "runs are accepted before they are stored",
      message: /was accepted, and is not stored/,
    },
  ];
  for (const { mutation, message } of drawCases(mutations, { what: "broken guards", max: 2 })) {
    test(`the simulation fails when ${mutation}`, async (t) => {
      const violation = await firstViolation(t, mutation);
      assert.match(violation?.message ?? "no seed failed", message);
    });
  }
});
