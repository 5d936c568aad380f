// What the scheduler asks of whoever sends calls to replicas. The proxy implements both interfaces; all answers come
// from memory and are exact at the moment of the question.
import type { AppId, ReplicaId } from "#lib/ids.ts";

/** The load of one app. */
export type Demand = {
  /** Calls that replicas work on now, those on replicas being drained included. WebSockets count as calls. */
  readonly running: number;
  /** Calls that wait for a replica with room. */
  readonly waiting: number;
  /** When a call last arrived, ran or ended, in `Clock.monotonicMs`; null: never since the platform started. */
  readonly lastActiveAtMs: number | null;
  /** Calls received since the platform started; never goes down. Calls per second are computed from it. */
  readonly receivedTotal: number;
};

/** How much each app has to do. An unknown app has the demand `noDemand`. */
export interface DemandSource {
  demandOf(appId: AppId): Demand;
}

/** What an app has that was never called. */
export const noDemand: Demand = Object.freeze({ running: 0, waiting: 0, lastActiveAtMs: null, receivedTotal: 0 });

/** How busy single replicas are. */
export interface Occupancy {
  /** Calls that the replica works on now; 0 for an unknown one. */
  running(replicaId: ReplicaId): number;
  /**
   * From the moment this returns no further call is sent to the replica; running calls go on. When the last of them
   * ends, the implementer calls `Scheduler.nudge` with the app, so that the replica can be stopped at once.
   */
  retire(replicaId: ReplicaId): void;
}
