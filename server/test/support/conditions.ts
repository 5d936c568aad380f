// How releases of a roll-out do, for an API without scheduler and proxy: nothing is known of them.
import type { Conditions, ReleaseCondition } from "#deploy/worse.ts";

/** A release without calls and replicas. */
const calm: ReleaseCondition = {
  calls: 0,
  failures: 0,
  failedSeconds: 0,
  serving: 0,
  unready: 0,
  failedStarts: 0,
  startReason: null,
};

/** Two such releases. */
export function noConditions(): Conditions {
  return { old: calm, next: calm, weight: 0 };
}
