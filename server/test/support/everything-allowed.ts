// For schedulers whose projects have no limits and whose apps nobody stops.
import type { Allowance } from "#scheduler/allowance.ts";

/** Allows everything. */
export const everythingAllowed: Allowance = {
  limitsOf: () => ({ name: "", replicasMax: null, gpusMax: null }),
  stopOf: () => undefined,
  onChange: () => () => undefined,
};
