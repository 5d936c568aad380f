// Runs one seed of the simulation: `node server/sim/scheduler/run-seed.ts <seed> [steps]`.
import { runWorld } from "./world.ts";

const [seed = "1", steps = "80"] = process.argv.slice(2);
const report = await runWorld({ seed: Number(seed), steps: Number(steps) });
process.stdout.write(`${JSON.stringify(report)}\n`);
