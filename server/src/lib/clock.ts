// The only reader of time, and of chance that is no secret. Everything else is handed a Clock, so that tests move time
// instead of waiting, and repeat what was drawn.

import { uptime } from "node:os";

/** A source of time, of waiting and of chance. */
export interface Clock {
  /** Milliseconds since the Unix epoch. The platform's own (`steadyClock`) does not follow a step of the machine's clock at once. */
  now(): number;
  /** False while `now` may be wrong by much: what removes things for their age, or closes months, waits. */
  isSettled(): boolean;
  /** Milliseconds since some fixed point; never goes back. For durations and deadlines. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `run` after `ms` unless the returned function is called before. Does not keep the process alive. */
  after(ms: number, run: () => void): () => void;
  /** In [0, 1): for jitter and for choosing. What nobody may guess comes from node:crypto. */
  random(): number;
}

/** The machine's clock, which may step. For tests and tools; the platform has `steadyClock`. */
export const systemClock: Clock = {
  now: () => Date.now(),
  isSettled: () => true,
  monotonicMs: () => performance.now(),
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(abortReason(signal));
      const wake = (): void => {
        clearTimeout(timer);
        reject(abortReason(signal));
      };
      const timer = setTimeout(() => {
        forget?.();
        resolve();
      }, ms);
      const forget = signal && onAbort(signal, wake);
    });
  },
  after(ms, run) {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
};

/** How long the machine runs, its sleep included, as the times of processes in Linux's /proc are counted. */
export function sinceBootMs(): number {
  // Some containers tell an uptime of their own, which is shorter; the other leaves sleep out.
  return Math.max(uptime() * 1000, Number(process.hrtime.bigint() / 1_000_000n));
}

/** All who sleep until one signal, as its one listener: the signal's own list is searched by each who comes or goes. */
class Sleepers extends Set<() => void> {
  handleEvent(): void {
    for (const wake of this) wake();
  }
}

const sleepersOf = new WeakMap<AbortSignal, Sleepers>();

function onAbort(signal: AbortSignal, wake: () => void): () => void {
  const sleepers = sleepersOf.get(signal) ?? new Sleepers();
  if (sleepers.size === 0) signal.addEventListener("abort", sleepers);
  sleepersOf.set(signal, sleepers.add(wake));
  return () => {
    sleepers.delete(wake);
    // A signal made of others is kept in memory while it has a listener.
    if (sleepers.size === 0) signal.removeEventListener("abort", sleepers);
  };
}

function abortReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new Error("aborted", { cause: reason });
}
