// The platform as `npm start` runs it; on SIGUSR2 it also collects garbage and prints the memory
// that remains in use.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
process.on("SIGUSR2", () => {
  collect();
  collect();
  const { rss, heapUsed, external } = process.memoryUsage();
  process.stdout.write(`memory ${JSON.stringify({ rss, used: heapUsed + external })}\n`);
});
await import("#main.ts");
