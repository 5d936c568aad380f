// Formats the results of the async run benchmark as tables, with the targets next to the numbers.
import { medianAndRange, milliseconds, table, thousands } from "#bench/harness/markdown.ts";
import { median, ratioOfRounds } from "#bench/harness/statistics.ts";
import type { AcceptAndFinish, Accepted } from "./accept-and-finish.ts";
import type { Started } from "./accept-to-start.ts";
import { backlogKinds } from "./backlog.ts";
import { deliveryKinds, type Delivered } from "./deliver.ts";
import type { Cpu, Rounds } from "./scene.ts";

/** All that was measured. */
export type AsyncMeasured = AcceptAndFinish & {
  readonly started: Rounds<Started>;
  readonly delivered: Rounds<Delivered>;
  readonly backlog: Rounds<Accepted>;
};

/** The tables, in Markdown. */
export function asyncTables(measured: AsyncMeasured): string[] {
  const { accepted, started, finished, delivered, backlog } = measured;
  return [
    ...targetTable(measured),
    "### Accepting: one run (job) per call, durably stored before the answer",
    "",
    ...acceptTable(accepted),
    "### Starting: 100 runs (jobs) per second on a warm app",
    "",
    ...table(
      ["who", "sent → accepted, p50", "accepted → started, p50", "p99", "sent → started, p50"],
      rows(started, (rounds) => [
        ms(rounds, ({ acceptedP50Ms }) => acceptedP50Ms),
        ms(rounds, ({ startedP50Ms }) => startedP50Ms),
        ms(rounds, ({ startedP99Ms }) => startedP99Ms),
        ms(rounds, ({ sentToStartedP50Ms }) => sentToStartedP50Ms),
      ]),
    ),
    "### Processing a backlog",
    "",
    ...table(
      ["who", "finished/s, median", "min – max", ...cpuHead("run")],
      rows(finished, (rounds) => [...speedCells(rounds.map(perSecondOf)), ...cpuCells(rounds)]),
    ),
    "### Delivering signed webhooks",
    "",
    ...table(
      ["who", "deliveries/s, median", "min – max", ...cpuHead("delivery"), "delivered twice"],
      rows(delivered, (rounds) => [
        ...speedCells(rounds.map(perSecondOf)),
        ...cpuCells(rounds),
        String(rounds.reduce((sum, { twice }) => sum + twice, 0)),
      ]),
    ),
    "### Accepting while runs of another app are waiting",
    "",
    ...acceptTable(backlog),
  ];
}

function targetTable(measured: AsyncMeasured): string[] {
  const { accepted, started, finished, delivered, backlog } = measured;
  const accepts = Object.entries(accepted)
    .filter(([name]) => name.startsWith("slipway"))
    .map(([name, rounds]) => {
      const p99 = median(rounds.map(({ p99Ms }) => p99Ms)).toFixed(1);
      return `${name}: ${thousands(median(rounds.map(callsOf)))}, p99 ${p99} ms`;
    });
  const finishedOf = (name: string): number[] => (finished[name] ?? []).map(perSecondOf);
  const runs = ratioOfRounds(
    finishedOf("slipway: the app answers immediately"),
    finishedOf("graphile-worker: unbatched"),
  );
  const deliveries = median((delivered[deliveryKinds.waiting] ?? []).map(perSecondOf));
  const backlogOf = (name: string): number[] => (backlog[name] ?? []).map(callsOf);
  const slowed = 1 - ratioOfRounds(backlogOf(backlogKinds.full), backlogOf(backlogKinds.empty));
  return table(
    ["target", "measured (median)"],
    [
      ["≥ 3,000 durable single accepts/s at p99 ≤ 20 ms", accepts.join("; ")],
      [
        "accept → start p50 ≤ 5 ms on a warm app",
        ms(started["slipway"] ?? [], ({ startedP50Ms }) => startedP50Ms),
      ],
      ["runs/s ≥ 0.5 × unbatched jobs/s of graphile-worker", `${runs.toFixed(2)} ×`],
      ["≥ 1,500 signed deliveries/s", thousands(deliveries)],
      ["a backlog of a million runs slows accepting by ≤ 10 %", `${(slowed * 100).toFixed(0)} %`],
    ],
  );
}

function acceptTable(accepted: Rounds<Accepted>): string[] {
  return table(
    ["who", "accepts/s, median", "min – max", "p50", "p99", ...cpuHead("accept")],
    rows(accepted, (rounds) => [
      ...speedCells(rounds.map(callsOf)),
      ms(rounds, ({ p50Ms }) => p50Ms),
      ms(rounds, ({ p99Ms }) => p99Ms),
      ...cpuCells(rounds),
    ]),
  );
}

function rows<Round>(
  all: Rounds<Round>,
  cells: (rounds: readonly Round[]) => readonly string[],
): string[][] {
  return Object.entries(all).map(([who, rounds]) => [who, ...cells(rounds)]);
}

function speedCells(perSecond: readonly number[]): string[] {
  return medianAndRange(perSecond, thousands);
}

function cpuHead(what: string): string[] {
  return [`own CPU time per ${what}`, "PostgreSQL's"];
}

function cpuCells(rounds: readonly Cpu[]): string[] {
  return [rounds.map(({ ownUs }) => ownUs), rounds.map(({ databaseUs }) => databaseUs)].map(
    (times) => `${Math.round(median(times))} µs`,
  );
}

function ms<Round>(rounds: readonly Round[], timeOf: (round: Round) => number): string {
  return milliseconds(median(rounds.map(timeOf)), 2);
}

function callsOf({ callsPerSecond }: Accepted): number {
  return callsPerSecond;
}

function perSecondOf({ perSecond }: { readonly perSecond: number }): number {
  return perSecond;
}
