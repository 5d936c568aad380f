// Load in a closed loop: a fixed number of callers, each of which sends its next call when the one
// before is answered.
import { quantile } from "./statistics.ts";

/** What the callers got. */
export type ClosedLoop = {
  readonly calls: number;
  readonly callsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
};

/** Calls until `isOver`. Rejects when a call does. */
export async function closedLoop(
  call: () => Promise<unknown>,
  { callers, isOver }: { readonly callers: number; readonly isOver: () => boolean },
): Promise<ClosedLoop> {
  const began = performance.now();
  const times: number[] = [];
  const caller = async (): Promise<void> => {
    while (!isOver()) {
      const sent = performance.now();
      await call();
      times.push(performance.now() - sent);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return {
    calls: times.length,
    callsPerSecond: times.length / ((performance.now() - began) / 1000),
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
  };
}

/** For `isOver`: true when so many seconds have passed from now on. */
export function overAfter(seconds: number): () => boolean {
  const end = performance.now() + seconds * 1000;
  return () => performance.now() >= end;
}

/** Works on `count` things, `atOnce` of them at a time. */
export async function workThrough(
  count: number,
  atOnce: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
