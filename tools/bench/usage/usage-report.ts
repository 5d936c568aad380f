// Formats the results of the usage benchmark as a table.
import { machine } from "#bench/report.ts";
import type { UsageBenchOptions, UsageResult } from "./usage-bench.ts";

/** The section of the document, in Markdown. */
export function usageSection(
  { days, databaseBytes, times }: UsageResult,
  { apps }: UsageBenchOptions,
): string {
  return [
    "## Usage",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}. A project with ${apps.toLocaleString("en")} apps used on every day of a year, and as much again in ten other projects: ${days.toLocaleString("en")} daily totals, ${Math.round(databaseBytes / 1e6)} MB. Node ${process.version}.`,
    "",
    "| what | p50 | max |",
    "|---|---|---|",
    ...times.map(
      ({ name, timesMs }) =>
        `| ${name} | ${at(timesMs, 0.5).toFixed(1)} ms | ${Math.max(...timesMs).toFixed(1)} ms |`,
    ),
    "",
  ].join("\n");
}

function at(times: readonly number[], share: number): number {
  const sorted = times.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
