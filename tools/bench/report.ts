// Formats the results of the proxy and cold start benchmarks as tables, and updates
// docs/benchmarks.md.
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { atOnce, type ColdStartResult, type Starts } from "./cold-start.ts";
import type { PeerResult, ProxyResult } from "./proxy-bench.ts";
import { findProgram, versionOf } from "./programs.ts";

/** The median; of an even count, the lower middle value. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((left, right) => left - right);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
}

/** Minimum and maximum, for tables. */
export function spread(numbers: readonly number[]): string {
  return `${thousands(Math.min(...numbers))} – ${thousands(Math.max(...numbers))}`;
}

/** For tables: 12.3k. */
export function thousands(number: number): string {
  return `${(number / 1000).toFixed(1)}k`;
}

/** Rounds of one peer that differ by more than this were disturbed by other load on the machine. */
const spreadMax = 1.5;

/**
 * Compares our proxy with each peer in sentences: by CPU time per call, and by calls per second.
 */
export function comparison(peers: readonly PeerResult[]): string {
  const ours = peers.find(({ name }) => name === "slipway");
  if (ours === undefined) return "";
  const others = peers.filter((peer) => peer !== ours);
  const cpu = (peer: PeerResult): number => median(peer.rounds.map((round) => round.cpuUsPerCall));
  const calls = (peer: PeerResult): number =>
    median(peer.rounds.map((round) => round.callsPerSecond));
  const list = (share: (peer: PeerResult) => number): string =>
    others.map((peer) => `${share(peer).toFixed(2)} × ${peer.name}`).join(", ");
  const byCpu = `By CPU time, Slipway handles ${list((peer) => cpu(peer) / cpu(ours))}`;
  const byCalls = `by calls per second, ${list((peer) => calls(ours) / calls(peer))}`;
  const widest = Math.max(...peers.map(spreadOf));
  const doubt = ` Rounds of one proxy vary by up to ${widest.toFixed(1)} ×, because the machine was busy with other work: trust the CPU time.`;
  return `${byCpu}; ${byCalls}.${widest > spreadMax ? doubt : ""}`;
}

/**
 * What a change costs: the CPU time per call of our proxy, divided by that of the other checkout in
 * the same round.
 */
export function changeCost(peers: readonly PeerResult[]): string {
  const [ours, before] = peers;
  if (ours === undefined || before === undefined) return "";
  const ratios = ours.rounds.map(
    (round, index) => round.cpuUsPerCall / (before.rounds[index]?.cpuUsPerCall ?? Number.NaN),
  );
  const sorted = ratios.toSorted((left, right) => left - right);
  const quarter = Math.floor(sorted.length / 4);
  const middleHalf = [sorted.at(quarter), sorted.at(-1 - quarter)];
  const range = middleHalf.map((ratio) => ratio?.toFixed(3)).join(" to ");
  return `CPU time per call ${median(ratios).toFixed(3)} × before (median of ${ratios.length} rounds; the middle half of them ${range})`;
}

function spreadOf({ rounds }: PeerResult): number {
  const calls = rounds.map((round) => round.callsPerSecond);
  return Math.max(...calls) / Math.min(...calls);
}

/** The section of the document, in Markdown. */
export function proxySection(
  result: ProxyResult,
  options: { readonly rounds: number; readonly seconds: number; readonly connections: number },
): string {
  const { rounds, seconds, connections } = options;
  const lines = [
    "## Proxy",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}. ${rounds} rounds of ${seconds} s, alternating, ${connections} keep-alive connections.`,
    `Node ${process.version}, ${versions().join(", ")}.`,
    "",
  ];
  for (const { name, peers } of result.scenarios) {
    lines.push(
      `### ${name}`,
      "",
      "| proxy | calls/s, median | min – max | CPU time per call | p50 | p99 |",
      "|---|---|---|---|---|---|",
    );
    for (const { name: peer, rounds: measured } of peers) {
      const of = (pick: (round: (typeof measured)[number]) => number): number[] =>
        measured.map(pick);
      const calls = of((round) => round.callsPerSecond);
      const cells = [
        thousands(median(calls)),
        spread(calls),
        `${median(of((round) => round.cpuUsPerCall)).toFixed(1)} µs`,
        `${median(of((round) => round.p50Ms)).toFixed(2)} ms`,
        `${median(of((round) => round.p99Ms)).toFixed(2)} ms`,
      ];
      lines.push(`| ${peer} | ${cells.join(" | ")} |`);
    }
    lines.push("", comparison(peers), "");
  }
  for (const reason of result.skipped) lines.push(`Left out: ${reason}`, "");
  return lines.join("\n");
}

/** The section of the document, in Markdown. */
export function coldStartSection({ cold, bare, manyCold, manyBare }: ColdStartResult): string {
  const row = (name: string, starts: readonly Starts[]): string => {
    const times = starts.map(({ ms }) => ms);
    const [min, middle, max] = [Math.min(...times), median(times), Math.max(...times)].map((ms) =>
      ms.toFixed(1),
    );
    return `| ${name} | ${middle} ms | ${min} – ${max} ms | ${median(starts.map(({ cpuMs }) => cpuMs)).toFixed(0)} ms |`;
  };
  return [
    "## Cold start",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}. ${cold.length} alternating rounds. ${busyness()} Node ${process.version}.`,
    "",
    "| what | median | min – max | CPU time of all processes, median |",
    "|---|---|---|---|",
    row("call to an app at zero replicas, sent → answered", cold),
    row('`python3 -c "import asyncio, json"`', bare),
    row(`calls to ${atOnce} such apps at once, sent → all answered`, manyCold),
    row(`${atOnce} such Pythons at once`, manyBare),
    "",
    `A call to an app at zero replicas takes ${ratio(cold, bare, "ms")} × the startup time of its Python alone; ${atOnce} at once take`,
    `${ratio(manyCold, manyBare, "ms")} × that of as many Pythons at once, and ${ratio(manyCold, manyBare, "cpuMs")} × their CPU time (medians of the ratios of each round).`,
    "",
  ].join("\n");
}

/** The rounds take turns, so each is compared with its own neighbour. */
function ratio(starts: readonly Starts[], bare: readonly Starts[], field: keyof Starts): string {
  return median(
    starts.map((one, round) => one[field] / (bare[round]?.[field] ?? Number.NaN)),
  ).toFixed(2);
}

/**
 * How much other work the machine had: above its number of cores, times say more about that than
 * about what is measured.
 */
export function busyness(): string {
  return `Load average at the end: ${(loadavg()[0] ?? 0).toFixed(1)}.`;
}

/** A short description of the machine. */
export function machine(): string {
  const memoryGb = Math.round(totalmem() / 2 ** 30);
  const model =
    cpus()[0]
      ?.model.replaceAll(/\(R\)|\(TM\)|\s+Processor/g, "")
      .trim() ?? "unknown processor";
  return `${availableParallelism()} cores (${model}, virtual), ${memoryGb} GiB`;
}

function versions(): string[] {
  const nginx = findProgram("nginx");
  const wrk = findProgram("wrk");
  const packages = ["undici", "http-proxy"].map((name) => {
    const manifest = readFileSync(
      new URL(`../../node_modules/${name}/package.json`, import.meta.url),
      "utf8",
    );
    return `${name} ${(JSON.parse(manifest) as { version: string }).version}`;
  });
  return [
    ...(nginx === null
      ? []
      : [versionOf(nginx, "-v").replace("nginx version: ", "").replace("/", " ")]),
    ...(wrk === null ? [] : [versionOf(wrk, "-v").replace(/ \[.*/, "")]),
    ...packages,
  ];
}

const documentUrl = new URL("../../docs/benchmarks.md", import.meta.url);

/** Replaces the section with the same heading; the rest of the document stays. */
export function writeSection(section: string): void {
  const heading = section.split("\n")[0] ?? "";
  const parts = readFileSync(documentUrl, "utf8").split(/^(?=## )/m);
  const others = parts.map((part) => (part.startsWith(`${heading}\n`) ? section : part));
  const isNew = !parts.some((part) => part.startsWith(`${heading}\n`));
  writeFileSync(
    documentUrl,
    `${[...others, ...(isNew ? [`\n${section}`] : [])].join("").trimEnd()}\n`,
  );
}
