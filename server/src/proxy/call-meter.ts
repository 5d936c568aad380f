// What the proxy counts of calls, as plain numbers that cost next to nothing to raise; `/metrics` shows them and the
// scheduler reads the load of apps from them.
import { Histogram } from "#lib/histogram.ts";
import type { AppId } from "#lib/ids.ts";

/** How long calls took, of all apps together: a histogram for each app would be twenty series for each. */
export class CallTimes {
  /** From the arrival of a call to the end of its answer. */
  readonly duration = new Histogram();
  /** Time in the line, of calls that had to wait. */
  readonly lineWait = new Histogram();
}

/** Answers 100 to 199, and so on; what an app makes up beyond 599 counts as 5xx. */
export const statusClasses = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const;

/** One app. */
export class CallMeter {
  readonly appId: AppId;
  readonly times: CallTimes;
  running = 0;
  waiting = 0;
  receivedTotal = 0;
  lastActiveAtMs: number | null = null;
  /** Calls whose client went away before the answer was complete. */
  clientGoneTotal = 0;
  /** Answers that were cut after their head was sent: the replica broke off or took too long. */
  cutTotal = 0;
  /** Of all answers together. */
  durationMs = 0;
  /** Answers by `statusClasses`. */
  readonly answers = [0, 0, 0, 0, 0];

  constructor(appId: AppId, times: CallTimes) {
    this.appId = appId;
    this.times = times;
  }

  /** Counts an answer. */
  answered(status: number, durationMs: number): void {
    const index = Math.min(Math.max(Math.trunc(status / 100), 1), statusClasses.length) - 1;
    this.answers[index] = (this.answers[index] ?? 0) + 1;
    this.durationMs += durationMs;
    this.times.duration.add(durationMs);
  }
}
