// The apps that have had a call or a replica: their lines, and the slots of their replicas. The
// scheduler reads each app's demand here.
import type { AppRoute } from "#apps/routes.ts";
import type { Fault } from "#lib/fault.ts";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { noDemand, type Demand, type DemandSource, type Occupancy } from "#scheduler/demand.ts";
import { AppCalls, type AppCallsParts } from "./app-calls.ts";
import { CallMeter, CallTimes } from "./call-meter.ts";
import type { ReleaseTally } from "./release-tally.ts";
import type { ReplicaSlot } from "./replica-slot.ts";

export type CalledAppsParts = Omit<AppCallsParts, "slots"> & {
  readonly routes: { byAppId(appId: AppId): AppRoute | undefined };
};

/** The called apps of one proxy. */
export class CalledApps implements DemandSource, Occupancy {
  /** How long calls of all apps took. */
  readonly times = new CallTimes();
  readonly #parts: CalledAppsParts & AppCallsParts;
  readonly #apps = new Map<AppId, AppCalls>();
  readonly #slots = new Map<ReplicaId, ReplicaSlot>();

  constructor(parts: CalledAppsParts) {
    this.#parts = { ...parts, slots: this.#slots };
  }

  /** The calls of an app; creates them at its first call or replica. */
  of(appId: AppId): AppCalls {
    const existing = this.#apps.get(appId);
    if (existing !== undefined) return existing;
    const app = new AppCalls(new CallMeter(appId, this.times), this.#parts);
    this.#apps.set(appId, app);
    app.refresh();
    return app;
  }

  /**
   * Called when the app's replicas have changed. Registers replicas, so that a replica can be
   * retired even before its first call. Forgets a deleted app.
   */
  refresh(appId: AppId): void {
    const app = this.of(appId);
    app.refresh();
    if (app.isIdle && this.#parts.routes.byAppId(appId) === undefined) this.#apps.delete(appId);
  }

  /**
   * Makes `demandOf` and `running` count a call that a replica works on but that this proxy did not
   * send, even before the view lists the replica. Call the returned function when the call has
   * ended; calling it again does nothing.
   */
  hold(appId: AppId, replicaId: ReplicaId): () => void {
    return this.of(appId).hold(replicaId);
  }

  demandOf(appId: AppId): Demand {
    const meter = this.#apps.get(appId)?.meter;
    if (meter === undefined) return noDemand;
    const { running, waiting, lastActiveAtMs, receivedTotal } = meter;
    return {
      running,
      waiting,
      lastActiveAtMs,
      receivedTotal,
      runMs: meter.runMs(this.#parts.monotonicMs()),
    };
  }

  /** The counters of a release; undefined: it had no replica lately. */
  tallyOf(appId: AppId, releaseId: ReleaseId): ReleaseTally | undefined {
    return this.#apps.get(appId)?.tallyOf(releaseId);
  }

  running(replicaId: ReplicaId): number {
    const slot = this.#slots.get(replicaId);
    if (slot !== undefined) return slot.running;
    let count = 0;
    for (const app of this.#apps.values()) count += app.heldOn(replicaId);
    return count;
  }

  retire(replicaId: ReplicaId): void {
    const slot = this.#slots.get(replicaId);
    if (slot !== undefined) this.#apps.get(slot.replica.appId)?.retire(slot);
  }

  /** The meter of each app that had a call or a replica, in order of appearance. */
  *meters(): Iterable<CallMeter> {
    for (const { meter } of this.#apps.values()) yield meter;
  }

  /** Refuses waiting calls and closes idle connections to replicas. */
  close(fault: Fault): void {
    for (const app of this.#apps.values()) {
      app.refuseWaiting(fault);
      app.close();
    }
  }
}
