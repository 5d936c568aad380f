// What the section about the proxy says of each scenario: a table of the peers, and how our proxy
// compares with them.
import { medianAndRange, milliseconds, table, thousands } from "./harness/markdown.ts";
import { median, quantile } from "./harness/statistics.ts";
import type { Load } from "./harness/wrk.ts";

/** One round of one peer. */
export type PeerRound = Load & { readonly cpuUsPerCall: number };

type CallRate = Pick<PeerRound, "callsPerSecond">;

/** The rounds of each peer by its name; ours is the first one, `slipway`. */
type Peers = Readonly<Record<string, readonly PeerRound[]>>;

/** Rounds of one peer that differ by more than this were disturbed by other load on the machine. */
const spreadMax = 1.5;

/** A row for each peer. */
export function peerTable(peers: Peers): string[] {
  const rows = Object.entries(peers).map(([peer, rounds]) => [
    peer,
    ...medianAndRange(rounds.map(callsOf), thousands),
    `${median(rounds.map(cpuOf)).toFixed(1)} µs`,
    milliseconds(median(rounds.map(({ p50Ms }) => p50Ms)), 2),
    milliseconds(median(rounds.map(({ p99Ms }) => p99Ms)), 2),
  ]);
  return table(["proxy", "calls/s, median", "min – max", "CPU time per call", "p50", "p99"], rows);
}

/**
 * Compares our proxy with each peer in sentences: by CPU time per call, and by calls per second.
 */
export function comparison(peers: Peers): string {
  const [[, ours] = ["", []], ...others] = Object.entries(peers);
  const list = (share: (rounds: readonly PeerRound[]) => number): string =>
    others.map(([peer, rounds]) => `${share(rounds).toFixed(2)} × ${peer}`).join(", ");
  const ourCpu = median(ours.map(cpuOf));
  const ourCalls = median(ours.map(callsOf));
  const byCpu = `By CPU time, Slipway handles ${list((rounds) => median(rounds.map(cpuOf)) / ourCpu)}`;
  const byCalls = `by calls per second, ${list((rounds) => ourCalls / median(rounds.map(callsOf)))}`;
  return `${byCpu}; ${byCalls}.${doubtIn(peers)}`;
}

/** A sentence after a space, if the rounds of one peer differ too much; else an empty text. */
export function doubtIn(peers: Readonly<Record<string, readonly CallRate[]>>): string {
  const widest = Math.max(...Object.values(peers).map(spreadOf));
  if (widest <= spreadMax) return "";
  return ` Rounds of one proxy vary by up to ${widest.toFixed(1)} ×, because the machine was busy with other work: trust the CPU time more.`;
}

/**
 * What a change costs: the CPU time per call of our proxy, divided by that of the other checkout in
 * the same round.
 */
export function changeCost(peers: Peers): string {
  const [ours = [], before = []] = Object.values(peers);
  const ratios = ours.map((round, index) => cpuOf(round) / (before[index]?.cpuUsPerCall ?? NaN));
  const show = (share: number): string => quantile(ratios, share).toFixed(3);
  return `CPU time per call ${show(0.5)} × before (median of ${ratios.length} rounds; the middle half of them ${show(0.25)} to ${show(0.75)}).`;
}

function callsOf({ callsPerSecond }: CallRate): number {
  return callsPerSecond;
}

function cpuOf({ cpuUsPerCall }: PeerRound): number {
  return cpuUsPerCall;
}

function spreadOf(rounds: readonly CallRate[]): number {
  const calls = rounds.map(callsOf);
  return Math.max(...calls) / Math.min(...calls);
}
