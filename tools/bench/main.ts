// `node tools/bench/main.ts proxy`: measures, prints, and writes docs/benchmarks.md. Options: --rounds=7 --seconds=4
// --connections=64 --no-write.
import { parseArgs } from "node:util";
import { benchProxies } from "./proxy-bench.ts";
import { proxySection, ratios, writeSection } from "./report.ts";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "7" },
    seconds: { type: "string", default: "4" },
    connections: { type: "string", default: "64" },
    "no-write": { type: "boolean", default: false },
  },
});

const [what] = positionals;
if (what !== "proxy") {
  console.error("What to measure? proxy");
  process.exit(1);
}
const options = {
  rounds: Number(values.rounds),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
};
const result = await benchProxies(options, (line) => console.log(line));
for (const { name, peers } of result.scenarios) console.log(`${name}: slipway carries ${ratios(peers).join(", ")}`);
if (!values["no-write"]) writeSection(proxySection(result, options));
