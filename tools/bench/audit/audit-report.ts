// The tables of the audit log benchmark, with the targets next to the numbers.
import { milliseconds, table, thousands } from "#bench/harness/markdown.ts";
import { median, quantile } from "#bench/harness/statistics.ts";
import { changeKinds, type ChangeKind } from "./change-cost.ts";
import type { PageTimes } from "./pages.ts";

/** One complete export, written or verified. */
export type Rate = { readonly entries: number; readonly bytes: number; readonly seconds: number };

/** All that was measured. `changes`: milliseconds of each round. */
export type AuditMeasured = {
  readonly pages: readonly PageTimes[];
  readonly exports: readonly Rate[];
  readonly verifications: readonly Rate[];
  readonly changes: Readonly<Record<ChangeKind, readonly number[]>>;
};

/** The tables, in Markdown. */
export function auditTables(measured: AuditMeasured): string[] {
  const { pages, exports, verifications, changes } = measured;
  const changeRows = Object.entries(changeKinds).map(([kind, what]) => [
    what,
    milliseconds(median(changes[kind as ChangeKind]), 2),
  ]);
  return [
    ...targetTable(measured),
    "Pages of 50 entries, each from a different project than the one before, including the time to build the response.",
    "",
    ...table(["page", "p50", "p99", "max", "entries per page"], pages.map(pageRow)),
    ...table(
      ["whole log of a project", "entries/s", "MB/s", "entries"],
      [
        rateRow("exported as NDJSON, to a file", exports),
        rateRow("verified, with signatures", verifications),
      ],
    ),
    ...table(
      ["a change in its own transaction, without waiting for the disk", "median"],
      changeRows,
    ),
  ];
}

function targetTable({ pages, changes }: AuditMeasured): string[] {
  const p99Of = (name: string): string =>
    milliseconds(quantile(pages.find((page) => page.name === name)?.timesMs ?? [], 0.99), 1);
  const worst = Math.max(...pages.map(({ timesMs }) => quantile(timesMs, 0.99)));
  const chained = median(changes.chained);
  const byChain = milliseconds(chained - median(changes.entry), 2);
  const byEntry = milliseconds(chained - median(changes.bare), 2);
  return table(
    ["target", "measured"],
    [
      ["any filtered page p99 ≤ 50 ms", `${milliseconds(worst, 1)}, for the slowest filter`],
      [
        "the thousandth page as fast as the first",
        `p99 ${p99Of("thousandth page")}; the first ${p99Of("first page")}`,
      ],
      ["≤ 0.3 ms added to a change", `${byChain} by the chain; ${byEntry} with the entry itself`],
    ],
  );
}

function pageRow({ name, timesMs, entries }: PageTimes): string[] {
  return [
    name,
    milliseconds(quantile(timesMs, 0.5), 2),
    milliseconds(quantile(timesMs, 0.99), 2),
    milliseconds(Math.max(...timesMs), 1),
    (entries / timesMs.length).toFixed(1),
  ];
}

function rateRow(what: string, rates: readonly Rate[]): string[] {
  const entriesPerSecond = median(rates.map(({ entries, seconds }) => entries / seconds));
  const megabytesPerSecond = median(rates.map(({ bytes, seconds }) => bytes / 1e6 / seconds));
  return [
    what,
    thousands(entriesPerSecond),
    megabytesPerSecond.toFixed(0),
    rates[0]?.entries.toLocaleString("en") ?? "0",
  ];
}
