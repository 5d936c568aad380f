// The only reader of time and of non-secret randomness. All other code gets a Clock, so that tests
// move time instead of waiting, and can repeat random draws.

import { uptime } from "node:os";

/** A source of time, waiting and randomness. */
export interface Clock {
  /**
   * Milliseconds since the Unix epoch. The platform's own clock (`steadyClock`) does not follow a
   * step of the machine's clock at once.
   */
  now(): number;
  /** False while `now` may be far off: code that removes old data or closes months then waits. */
  isSettled(): boolean;
  /** Milliseconds since some fixed point; never goes backwards. For durations and deadlines. */
  monotonicMs(): number;
  /** Resolves after `ms`. Rejects with the signal's reason when the signal is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /**
   * Calls `run` after `ms` unless the returned function is called first. Does not keep the process
   * alive.
   */
  after(ms: number, run: () => void): () => void;
  /** A number in [0, 1), for jitter and choices. Unguessable values come from node:crypto. */
  random(): number;
}

/** The machine's clock, which may step. For tests and tools; the platform uses `steadyClock`. */
export const systemClock: Clock = {
  now: () => Date.now(),
  isSettled: () => true,
  monotonicMs: () => performance.now(),
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(abortReason(signal));
      const abort = (): void => {
        clearTimeout(timer);
        reject(abortReason(signal));
      };
      const timer = setTimeout(() => {
        stopListening?.();
        resolve();
      }, ms);
      const stopListening = signal && onAbort(signal, abort);
    });
  },
  after(ms, run) {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
};

/** The time since the machine booted, including sleep, comparable with times in Linux's /proc. */
export function sinceBootMs(): number {
  // Either time may be too short: `uptime` may be that of a container, and `hrtime` leaves out
  // sleep.
  return Math.max(uptime() * 1000, Number(process.hrtime.bigint() / 1_000_000n));
}

/**
 * All sleepers that wait on one signal, behind a single listener: adding a listener takes longer
 * the more listeners a signal has.
 */
class Sleepers extends Set<() => void> {
  /** Called by the signal, which takes an object with this method as a listener. */
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
    // A composite signal stays in memory while it has a listener.
    if (sleepers.size === 0) signal.removeEventListener("abort", sleepers);
  };
}

function abortReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new Error("aborted", { cause: reason });
}
