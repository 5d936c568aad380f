// Async runs in a simulated world over a real database, seed by seed. A failing seed is printed with what happened to the
// run; repeat it, or run as many as wanted, with `node server/sim/runs/run-seeds.ts <first> [count]`.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemClock } from "#lib/clock.ts";
import type { WithAfter } from "#test/support/clean-last.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { templateName } from "#test/support/test-server.ts";
import type { Mutation } from "./faults.ts";
import { Violation } from "./ledger.ts";
import { SimDatabase } from "./sim-database.ts";
import { runWorld, type WorldReport } from "./world.ts";

const events = 40;
/** A busy machine runs fewer seeds, so that the tests of all parts end in time. */
const seedsMin = 3;
const seedsMax = 10;
const seedsMs = 9_000;

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

test("no seed breaks a promise", async (t) => {
  const database = await simDatabase(t);
  const beganMs = systemClock.monotonicMs();
  const total = new Map<keyof WorldReport, number>();
  for (let seed = 1; seed <= seedsMax; seed++) {
    if (seed > seedsMin && systemClock.monotonicMs() - beganMs > seedsMs) break;
    try {
      const report = await runWorld({ database, seed, events });
      for (const name of Object.keys(report) as (keyof WorldReport)[]) {
        total.set(name, (total.get(name) ?? 0) + report[name]);
      }
    } catch (error) {
      throw new Error(`seed ${seed} with ${events} events`, { cause: error });
    }
  }
  const { timeout: _rare, refused: _seldom, ...usual } = Object.fromEntries(total);
  for (const [name, count] of Object.entries(usual)) assert.ok(count > 0, `${name}: none`);
});

test("a seed gives the same order again", async (t) => {
  const database = await simDatabase(t);
  const reports = [];
  for (let count = 0; count < 2; count++) reports.push(await runWorld({ database, seed: 5, events: 15 }));
  assert.deepEqual(reports[0], reports[1]);
});

describe("a broken guard is noticed", () => {
  const mutations: readonly { mutation: Mutation; message: RegExp }[] = [
    { mutation: "the epoch guard is taken out", message: /was written by .* with epoch \d+, but .* holds/ },
    { mutation: "lost runs are not taken over", message: /is stuck/ },
    { mutation: "starts are written after sending", message: /was begun by a replica while it was written down as/ },
    { mutation: "answers are acknowledged before their ends are stored", message: /was acknowledged before/ },
    { mutation: "runs are accepted before they are stored", message: /was accepted, and is not stored/ },
  ];
  for (const { mutation, message } of mutations) {
    test(`the simulation fails when ${mutation}`, async (t) => {
      const violation = await firstViolation(t, mutation);
      assert.match(violation?.message ?? "no seed failed", message);
    });
  }
});
