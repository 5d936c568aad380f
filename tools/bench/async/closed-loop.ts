// Load in the process itself: so many callers, each of which makes its next call when the last was answered.
import { monotonicMs } from "./monotonic.ts";

/** What a load measured. */
export type Closed = {
  readonly calls: number;
  readonly callsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
};

/** How long, and how many callers. */
export type ClosedOptions = { readonly seconds: number; readonly connections: number };

/** Calls until the time is over. Rejects when a call does. */
export async function closedLoop(call: () => Promise<unknown>, options: ClosedOptions): Promise<Closed> {
  const beganMs = monotonicMs();
  const endMs = beganMs + options.seconds * 1000;
  const times: number[] = [];
  const caller = async (): Promise<void> => {
    for (let sentMs = monotonicMs(); sentMs < endMs;) {
      await call();
      const nowMs = monotonicMs();
      times.push(nowMs - sentMs);
      sentMs = nowMs;
    }
  };
  await Promise.all(Array.from({ length: options.connections }, caller));
  const callsPerSecond = times.length / ((monotonicMs() - beganMs) / 1000);
  return { calls: times.length, callsPerSecond, p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99) };
}

/** The value below which such a share of the values is. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
