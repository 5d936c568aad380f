// What the scheduler has done since the platform started, as plain numbers; `/metrics` shows them.

/** Counts; each but `latestColdStartMs` only grows. */
export type Counters = {
  /** Starts of replicas that were begun. */
  starts: number;
  /** Replicas that became ready. */
  readies: number;
  /** Replicas that are gone, for whatever reason. */
  ends: number;
  /** Starts that failed or took too long. */
  startFailures: number;
  /** Ready replicas that ended although nobody asked them to. */
  crashes: number;
  /** Replicas replaced because their health check failed. */
  unhealthy: number;
  /** From the decision to the readiness of the replica that became ready last; 0 before there was one. */
  latestColdStartMs: number;
};

/** All at zero. */
export function newCounters(): Counters {
  return { starts: 0, readies: 0, ends: 0, startFailures: 0, crashes: 0, unhealthy: 0, latestColdStartMs: 0 };
}
