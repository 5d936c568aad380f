// Counts what the scheduler has done since the platform started; `/metrics` shows the numbers.
import { Histogram } from "#lib/histogram.ts";

/** Monotonic counters. */
export class Counters {
  /** Replica starts. */
  starts = 0;
  /** Replicas that ended, for any reason. */
  ends = 0;
  /** Starts that failed or timed out. */
  startFailures = 0;
  /** Ready replicas that exited unexpectedly. */
  crashes = 0;
  /** Replicas replaced because their health check failed. */
  unhealthy = 0;
  /** The time from the decision to start a replica until it is ready. */
  readonly coldStarts = new Histogram();
}
