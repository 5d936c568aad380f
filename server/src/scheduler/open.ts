// Opens the scheduler and the view of ready replicas that it keeps for the proxy.
import type { Foundation } from "#store/foundation.ts";
import { ReplicaStore } from "./replica-store.ts";
import { Scheduler, type SchedulerParts } from "./scheduler.ts";

/** Opens the scheduler on the database; it works once it is started. */
export function openScheduler(
  { db, clock, log }: Foundation,
  parts: Omit<SchedulerParts, "rows" | "clock" | "log">,
): Scheduler {
  return new Scheduler({ ...parts, rows: new ReplicaStore(db), clock, log });
}
