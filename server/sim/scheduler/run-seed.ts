// Runs one seed of the simulation: `node server/sim/scheduler/run-seed.ts <seed> [steps] [limited]
// [stopping] [failing] [crowded]`; `limited`: at the limit of a project; `stopping`: people stop
// and start apps; `failing`: most starts fail; `crowded`: all apps share a small pool, and some are
// protected.
import { runWorld } from "./world.ts";

const [seed = "1", steps = "80", ...kind] = process.argv.slice(2);
const kinds = {
  isLimited: kind.includes("limited"),
  isStopping: kind.includes("stopping"),
  isFailing: kind.includes("failing"),
  isCrowded: kind.includes("crowded"),
};
const report = await runWorld({ seed: Number(seed), steps: Number(steps), ...kinds });
process.stdout.write(`${JSON.stringify(report)}\n`);
