// Runs one seed and prints what happened: `node server/sim/scheduler/run-seed.ts <seed> [steps] [limited]`; for a failed
// seed of the tests. `limited`: at the limit of a project.
import { runWorld } from "./world.ts";

const [seed = "1", steps = "80", limited = ""] = process.argv.slice(2);
console.log(await runWorld({ seed: Number(seed), steps: Number(steps), isLimited: limited === "limited" }));
