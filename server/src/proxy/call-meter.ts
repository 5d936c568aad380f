// The proxy's call counters: plain numbers that are cheap to increment. `/metrics` exposes them and
// the scheduler reads the load of apps from them.
import { Histogram } from "#lib/histogram.ts";
import type { AppId } from "#lib/ids.ts";

/** Call durations of all apps together: a histogram per app would add twenty series for each. */
export class CallTimes {
  /** From a call's arrival to the end of its answer. */
  readonly duration = new Histogram();
  /** Time in the line, for calls that had to wait. */
  readonly lineWait = new Histogram();
}

/** Answers 100 to 199, and so on; statuses above 599 count as 5xx. */
export const statusClasses = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const;

/** The counters of one app. */
export class CallMeter {
  readonly appId: AppId;
  readonly times: CallTimes;
  running = 0;
  waiting = 0;
  receivedTotal = 0;
  /** The ends minus the begins of calls: one number instead of a clock for each running call. */
  #endsMinusBegins = 0;
  lastActiveAtMs: number | null = null;
  /** Calls whose client disconnected before the answer was complete. */
  clientGoneTotal = 0;
  /** Answers cut off after their head: the replica broke off or timed out. */
  cutTotal = 0;
  /** From arrival to the end of the answer. */
  readonly durations = new Histogram();
  /** Total of all answers. */
  durationMs = 0;
  /** Answers per class of `statusClasses`. */
  readonly answers = [0, 0, 0, 0, 0];

  constructor(appId: AppId, times: CallTimes) {
    this.appId = appId;
    this.times = times;
  }

  /** A call begins to run on a replica. */
  began(nowMs: number): void {
    this.running++;
    this.#endsMinusBegins -= nowMs;
  }

  /** A call that began runs no more. */
  ended(nowMs: number): void {
    this.running--;
    this.#endsMinusBegins += nowMs;
  }

  /** For how long calls have run up to now, summed over calls. */
  runMs(nowMs: number): number {
    return this.#endsMinusBegins + this.running * nowMs;
  }

  /** Answers of the server's kind of errors, and those that were cut off. */
  get failedTotal(): number {
    return (this.answers[4] ?? 0) + this.cutTotal;
  }

  /** Counts an answer. */
  answered(status: number, durationMs: number): void {
    const index = Math.min(Math.max(Math.trunc(status / 100), 1), statusClasses.length) - 1;
    this.answers[index] = (this.answers[index] ?? 0) + 1;
    this.durationMs += durationMs;
    this.durations.add(durationMs);
    this.times.duration.add(durationMs);
  }
}
