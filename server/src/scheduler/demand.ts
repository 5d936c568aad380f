// What the scheduler needs to know about calls. The proxy implements both interfaces; all answers
// come from memory and are exact at the moment of the call.
import type { AppId, ReplicaId } from "#lib/ids.ts";

/** The load of one app. */
export type Demand = {
  /**
   * Number of calls in progress, even on draining replicas. WebSockets count as calls.
   */
  readonly running: number;
  /** Number of calls that wait for a free slot on a replica. */
  readonly waiting: number;
  /**
   * When a call last arrived, ran or ended, by `Clock.monotonicMs`; null: never since the platform
   * started.
   */
  readonly lastActiveAtMs: number | null;
  /**
   * Number of calls received since the platform started; never decreases. Calls per second are
   * computed from it.
   */
  readonly receivedTotal: number;
  /**
   * For how long calls have run since the platform started, summed over calls. The mean of running
   * calls is computed from it.
   */
  readonly runMs: number;
};

/** The load of each app. An unknown app has the demand `noDemand`. */
export interface DemandSource {
  demandOf(appId: AppId): Demand;
}

/** The demand of an app without calls. */
export const noDemand: Demand = Object.freeze({
  running: 0,
  waiting: 0,
  lastActiveAtMs: null,
  receivedTotal: 0,
  runMs: 0,
});

/** How busy individual replicas are. */
export interface Occupancy {
  /** Number of calls in progress on the replica; 0 for an unknown replica. */
  running(replicaId: ReplicaId): number;
  /**
   * Takes the replica out of service: it gets no further calls once this returns, but running calls
   * continue. When the last one ends, the implementer calls `Scheduler.nudge` with the app, so that
   * the replica can stop at once.
   */
  retire(replicaId: ReplicaId): void;
}
