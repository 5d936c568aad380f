// A closed-loop load generator inside the process: a fixed number of callers, each of which sends
// its next call when the previous one was answered.
import { monotonicMs } from "./monotonic.ts";

/** The result of a load. */
export type Closed = {
  readonly calls: number;
  readonly callsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
};

/** The duration and the number of callers. */
export type ClosedOptions = { readonly seconds: number; readonly connections: number };

/** Sends calls until the time is over. Rejects when a call fails. */
export async function closedLoop(
  call: () => Promise<unknown>,
  options: ClosedOptions,
): Promise<Closed> {
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
  return {
    calls: times.length,
    callsPerSecond,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
  };
}

/** A quantile: this share of the values is below the result. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
