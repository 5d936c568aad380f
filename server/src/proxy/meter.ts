// What the proxy counts of one app, as plain numbers that cost next to nothing to raise; `/metrics` shows them and the
// scheduler reads the load from them.
import type { AppId } from "#lib/ids.ts";

/** Upper bounds in seconds; a last bucket has all that is longer. */
export const bucketBoundsSeconds = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900,
] as const;
const boundsMs = bucketBoundsSeconds.map((seconds) => seconds * 1000);

/** How long something took, counted in buckets. */
export class Histogram {
  readonly buckets = new Float64Array(boundsMs.length + 1);
  sumMs = 0;

  add(ms: number): void {
    let index = 0;
    while (index < boundsMs.length && ms > (boundsMs[index] ?? 0)) index++;
    this.buckets[index] = (this.buckets[index] ?? 0) + 1;
    this.sumMs += ms;
  }

  get count(): number {
    return this.buckets.reduce((sum, count) => sum + count, 0);
  }
}

const statusLeast = 100;
const statusMost = 599;

/** One app. */
export class Meter {
  readonly appId: AppId;
  running = 0;
  waiting = 0;
  receivedTotal = 0;
  lastActiveAtMs: number | null = null;
  /** Calls whose client went away before the answer was complete. */
  clientGoneTotal = 0;
  /** Answers that were cut after their head was sent: the replica broke off or took too long. */
  cutTotal = 0;
  /** From the arrival of a call to the end of its answer. */
  readonly duration = new Histogram();
  /** Time in the line, of calls that had to wait. */
  readonly lineWait = new Histogram();
  readonly #statuses = new Float64Array(statusMost - statusLeast + 1);

  constructor(appId: AppId) {
    this.appId = appId;
  }

  /** Counts an answer; what an app makes up beyond 599 counts as 599. */
  answered(status: number, durationMs: number): void {
    const index = Math.min(status, statusMost) - statusLeast;
    this.#statuses[index] = (this.#statuses[index] ?? 0) + 1;
    this.duration.add(durationMs);
  }

  /** Status and count of all that were counted. */
  *statuses(): Iterable<[number, number]> {
    for (const [index, count] of this.#statuses.entries()) {
      if (count > 0) yield [index + statusLeast, count];
    }
  }
}
