// What the scheduler has done since the platform started, as plain numbers; `/metrics` shows them.
import { Histogram } from "#lib/histogram.ts";

/** Each only grows. */
export class Counters {
  /** Starts of replicas that were begun. */
  starts = 0;
  /** Replicas that are gone, for whatever reason. */
  ends = 0;
  /** Starts that failed or took too long. */
  startFailures = 0;
  /** Ready replicas that ended although nobody asked them to. */
  crashes = 0;
  /** Replicas replaced because their health check failed. */
  unhealthy = 0;
  /** From the decision to start a replica to its readiness, of each that became ready. */
  readonly coldStarts = new Histogram();
}
