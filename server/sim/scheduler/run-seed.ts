// Runs one seed of the simulation: `node server/sim/scheduler/run-seed.ts <seed> [steps] [limited]`;
// `limited`: at the limit of a project.
import { runWorld } from "./world.ts";

const [seed = "1", steps = "80", limited = ""] = process.argv.slice(2);
const report = await runWorld({ seed: Number(seed), steps: Number(steps), isLimited: limited === "limited" });
process.stdout.write(`${JSON.stringify(report)}\n`);
