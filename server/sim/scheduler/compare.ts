// `node server/sim/scheduler/compare.ts`: plays every load to our scheduler, to Knative's rule and
// to the perfect line, prints the table, and writes it to docs/benchmarks.md and the curves to
// docs/guides/scaling-curves.svg. With --no-write it only prints.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { compareLoad, means, seeds, type Compared } from "./comparison.ts";
import { curvesSvg } from "./curves-svg.ts";
import { loadShapes } from "./load-shapes.ts";
import { scalingSection } from "./scaling-section.ts";

const { values } = parseArgs({ options: { "no-write": { type: "boolean", default: false } } });
const docs = join(import.meta.dirname, "../../../docs");

const all: Compared[] = [];
for (const shape of loadShapes) {
  const hours: Compared[] = [];
  for (const seed of seeds) hours.push(await compareLoad(shape, seed, { isShort: false }));
  all.push(means(hours));
  process.stdout.write(`${shape.name} was played\n`);
}
const section = scalingSection(all);
process.stdout.write(`\n${section}`);
if (!values["no-write"]) {
  const page = join(docs, "benchmarks.md");
  const parts = readFileSync(page, "utf8").split(/^(?=## )/m);
  const heading = `${section.split("\n")[0] ?? ""}\n`;
  const isThere = parts.some((part) => part.startsWith(heading));
  const rest = parts.map((part) => (part.startsWith(heading) ? `${section}\n` : part)).join("");
  writeFileSync(page, `${(isThere ? rest : `${rest.trimEnd()}\n\n${section}`).trimEnd()}\n`);
  writeFileSync(join(docs, "guides/scaling-curves.svg"), curvesSvg(all));
}
