// The perfect line: an oracle that knows each call in advance. No call waits, and it starts each
// replica exactly early enough. No scaler that makes no call wait can do with fewer
// replica-seconds.
import { hourSeconds, type LoadCall } from "./load-shapes.ts";

/** Replica-seconds of the oracle, and how many replicas it has in each second. */
export type PerfectLine = { readonly replicaSeconds: number; readonly curve: readonly number[] };

type Span = { readonly fromMs: number; readonly toMs: number };

/**
 * Replica k is wanted while more than k - 1 replicas' worth of calls run. It starts `coldMs`
 * before, and stays through a gap that is shorter than another start.
 */
export function perfectLine(
  calls: readonly LoadCall[],
  { callsPerReplica, coldMs }: { readonly callsPerReplica: number; readonly coldMs: number },
): PerfectLine {
  const spans = spansOf(calls, callsPerReplica).flatMap((ofReplica) => joined(ofReplica, coldMs));
  const curve = Array.from({ length: hourSeconds }, () => 0);
  let replicaMs = 0;
  for (const { fromMs, toMs } of spans) {
    replicaMs += toMs - fromMs + coldMs;
    const last = Math.min(hourSeconds - 1, Math.floor(toMs / 1000));
    for (let second = Math.max(0, Math.ceil((fromMs - coldMs) / 1000)); second <= last; second++)
      curve[second] = (curve[second] ?? 0) + 1;
  }
  return { replicaSeconds: replicaMs / 1000, curve };
}

/** For each replica, when there are so many calls that it has one to run. */
function spansOf(calls: readonly LoadCall[], callsPerReplica: number): Span[][] {
  const changes = calls
    .flatMap(({ atMs, durationMs }) => [
      { atMs, by: 1 },
      { atMs: atMs + durationMs, by: -1 },
    ])
    .toSorted((left, right) => left.atMs - right.atMs || left.by - right.by);
  const spans: Span[][] = [];
  const sinceMs: number[] = [];
  let running = 0;
  for (const { atMs, by } of changes) {
    running += by;
    const wanted = Math.ceil(running / callsPerReplica);
    while (sinceMs.length < wanted) sinceMs.push(atMs);
    while (sinceMs.length > wanted) {
      const fromMs = sinceMs.pop() ?? atMs;
      (spans[sinceMs.length] ??= []).push({ fromMs, toMs: atMs });
    }
  }
  return spans;
}

function joined(spans: readonly Span[], coldMs: number): Span[] {
  const result: Span[] = [];
  for (const span of spans) {
    const before = result.at(-1);
    if (before !== undefined && span.fromMs - before.toMs < coldMs) {
      result[result.length - 1] = { fromMs: before.fromMs, toMs: span.toMs };
    } else result.push(span);
  }
  return result;
}
