// What the benchmarks write into docs/benchmarks.md: the list of them, and a section for each.
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { join } from "node:path";
import { projectDir } from "#tidy/tree.ts";
import type { Benchmark, Report } from "./benchmark.ts";
import { optionsText } from "./command-line.ts";

const document = join(projectDir, "docs/benchmarks.md");

/** The rows of the list, each with its end of line. */
export function listRows(benchmarks: readonly Benchmark[]): string {
  return benchmarks
    .map(
      ({ name, measures, options }) =>
        `| \`node tools/bench/main.ts ${name}\` | ${measures} | \`${optionsText(options)}\` |\n`,
    )
    .join("");
}

/** The section of a benchmark that has just run, in Markdown. */
export function sectionOf(heading: string, { conditions, versions = [], body }: Report): string {
  const date = new Date().toISOString().slice(0, 10);
  const programs = [`Node ${process.version}`, ...versions].join(", ");
  return [
    `## ${heading}`,
    "",
    `${date}, ${machine()}. ${conditions} ${busyness()} ${programs}.`,
    "",
    ...body,
  ].join("\n");
}

/** Replaces the section with the same heading, and the list; the rest of the document stays. */
export function writeSection(section: string, benchmarks: readonly Benchmark[]): void {
  const [heading = ""] = section.split("\n");
  const parts = readFileSync(document, "utf8").split(/^(?=## )/m);
  const index = parts.findIndex((part) => part.startsWith(`${heading}\n`));
  parts.splice(index < 0 ? parts.length : index, 1, section);
  const text = parts.map((part) => `${part.trimEnd()}\n`).join("\n");
  writeFileSync(
    document,
    text.replace(/(?:^\| `node tools\/bench\/main\.ts .*\n)+/m, listRows(benchmarks)),
  );
}

/**
 * How much other work the machine had: above its number of cores, times say more about that than
 * about what is measured.
 */
function busyness(): string {
  return `Load average at the end: ${(loadavg()[0] ?? 0).toFixed(1)}.`;
}

function machine(): string {
  const memoryGb = Math.round(totalmem() / 2 ** 30);
  const model =
    cpus()[0]
      ?.model.replaceAll(/\(R\)|\(TM\)|\s+Processor/g, "")
      .trim() ?? "unknown processor";
  return `${availableParallelism()} cores (${model}, virtual), ${memoryGb} GiB`;
}
