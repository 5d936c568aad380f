// Runs seeds of the simulation on a database of its own: `node server/sim/runs/run-seeds.ts <first>
// [count] [events]`. Stops at the first seed that breaks a promise, and prints what happened to the
// run then.
import { Violation } from "./ledger.ts";
import { withSimDatabase } from "./own-database.ts";
import type { SimDatabase } from "./sim-database.ts";
import { runWorld } from "./world.ts";

const [first = "1", count = "1", events = "60"] = process.argv.slice(2);

async function runSeeds(database: SimDatabase): Promise<void> {
  for (let seed = Number(first); seed < Number(first) + Number(count); seed++) {
    try {
      const report = await runWorld({ database, seed, events: Number(events) });
      process.stdout.write(`seed ${seed}: ${JSON.stringify(report)}\n`);
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      process.stdout.write(
        `seed ${seed} with ${events} events breaks a promise:\n${error.message}\n`,
      );
      process.exitCode = 1;
      return;
    }
  }
}

await withSimDatabase(runSeeds);
