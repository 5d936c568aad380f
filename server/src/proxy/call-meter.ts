// The proxy's counters of calls: plain numbers that are cheap to increment. `/metrics` shows them,
// and the scheduler reads the load of apps from them.
import { Histogram } from "#lib/histogram.ts";
import type { AppId } from "#lib/ids.ts";

/** Durations of the calls of all apps: with a histogram per app, `/metrics` would be too long. */
export class CallTimes {
  /** From a call's arrival to the end of its answer. */
  readonly duration = new Histogram();
  /** Time in the line, for calls that had to wait. */
  readonly lineWait = new Histogram();
}

/** Classes of status codes: 1xx is 100 to 199, and so on. Codes above 599 count as 5xx. */
export const statusClasses = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const;

/** The counters of one app. */
export class CallMeter {
  readonly appId: AppId;
  readonly times: CallTimes;
  /** Calls that replicas work on now. */
  running = 0;
  /** Calls that wait in the line now. */
  waiting = 0;
  /** Calls that entered the app, even those that were refused at once. */
  receivedTotal = 0;
  /**
   * The sum of the times at which calls ended, minus the sum of the times at which calls began.
   * From it, `runMs` is computed without a clock for each running call.
   */
  #endsMinusBegins = 0;
  /** When a call last arrived, began or ended, by `Clock.monotonicMs`; null: none has. */
  lastActiveAtMs: number | null = null;
  /** Calls whose client disconnected before the answer was complete. */
  clientGoneTotal = 0;
  /** Answers cut off after their head: the replica broke off or timed out. */
  cutTotal = 0;
  /** Durations of answered calls, from arrival to the end of the answer. */
  readonly durations = new Histogram();
  /** The sum of these durations. */
  durationMs = 0;
  /** The number of answers of each class, in the order of `statusClasses`. */
  readonly answers = [0, 0, 0, 0, 0];

  constructor(appId: AppId, times: CallTimes) {
    this.appId = appId;
    this.times = times;
  }

  /** To be called when a call begins to run on a replica. */
  began(nowMs: number): void {
    this.running++;
    this.#endsMinusBegins -= nowMs;
  }

  /** To be called when a call that began has ended. */
  ended(nowMs: number): void {
    this.running--;
    this.#endsMinusBegins += nowMs;
  }

  /** The sum of the times that all calls have run so far. */
  runMs(nowMs: number): number {
    return this.#endsMinusBegins + this.running * nowMs;
  }

  /** The number of answers with status 500 or above, and of answers that were cut off. */
  get failedTotal(): number {
    return (this.answers[indexOf(500)] ?? 0) + this.cutTotal;
  }

  /** Counts an answer. */
  answered(status: number, durationMs: number): void {
    const index = indexOf(status);
    this.answers[index] = (this.answers[index] ?? 0) + 1;
    this.durationMs += durationMs;
    this.durations.add(durationMs);
    this.times.duration.add(durationMs);
  }
}

/** The index of the status in `statusClasses`. */
function indexOf(status: number): number {
  const firstDigit = Math.trunc(status / 100);
  return Math.min(Math.max(firstDigit, 1), statusClasses.length) - 1;
}
