// Formats the results of the audit log benchmark as tables, with the targets next to the numbers.
import { machine, median, thousands } from "#bench/report.ts";
import type { AuditBenchOptions, AuditResult, Rate } from "./audit-bench.ts";
import { changeKinds, type ChangeKind } from "./change-cost.ts";

/** The section of the document, in Markdown. */
export function auditSection(result: AuditResult, { rows, projects }: AuditBenchOptions): string {
  const { fillSeconds, databaseBytes, pages, exports, verifications, changes } = result;
  const timeOf = (name: string): number =>
    at(pages.find((page) => page.name === name)?.timesMs ?? [], 0.99);
  const worst = Math.max(...pages.map(({ timesMs }) => at(timesMs, 0.99)));
  const change = (kind: ChangeKind): number => median(changes[kind]);
  const total = change("chained") - change("bare");
  const chain = change("chained") - change("entry");
  return [
    "## Audit log",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}. ${rows.toLocaleString("en")} entries of ${projects} projects, ${(databaseBytes / 1e9).toFixed(1)} GB with indexes and chains, filled in ${fillSeconds.toFixed(0)} s. Node ${process.version}.`,
    "",
    "| target | measured |",
    "|---|---|",
    `| any filtered page p99 ≤ 50 ms | ${worst.toFixed(1)} ms, for the slowest filter |`,
    `| the thousandth page as fast as the first | p99 ${timeOf("thousandth page").toFixed(1)} ms; the first ${timeOf("first page").toFixed(1)} ms |`,
    `| ≤ 0.3 ms added to a change | ${chain.toFixed(2)} ms by the chain; ${total.toFixed(2)} ms with the entry itself |`,
    "",
    "Pages of 50 entries, each from a different project than the one before, including the time to build the response.",
    "",
    "| page | p50 | p99 | max | entries per page |",
    "|---|---|---|---|---|",
    ...pages.map(
      ({ name, timesMs, entries }) =>
        `| ${name} | ${at(timesMs, 0.5).toFixed(2)} ms | ${at(timesMs, 0.99).toFixed(2)} ms | ${Math.max(...timesMs).toFixed(1)} ms | ${(entries / timesMs.length).toFixed(1)} |`,
    ),
    "",
    "| whole log of a project | entries/s | MB/s | entries |",
    "|---|---|---|---|",
    rateRow("exported as NDJSON, to a file", exports),
    rateRow("verified, with signatures", verifications),
    "",
    "| a change in its own transaction, without waiting for the disk | median |",
    "|---|---|",
    ...(Object.keys(changeKinds) as ChangeKind[]).map(
      (kind) => `| ${changeKinds[kind]} | ${change(kind).toFixed(2)} ms |`,
    ),
    "",
  ].join("\n");
}

function rateRow(name: string, rates: readonly Rate[]): string {
  const entries = median(rates.map((rate) => rate.entries / rate.seconds));
  const megabytes = median(rates.map((rate) => rate.bytes / 1e6 / rate.seconds));
  return `| ${name} | ${thousands(entries)} | ${megabytes.toFixed(0)} | ${rates[0]?.entries.toLocaleString("en") ?? "0"} |`;
}

function at(times: readonly number[], share: number): number {
  const sorted = times.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
