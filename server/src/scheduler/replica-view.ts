// What the proxy needs to know about replicas, held in memory: which ones of an app's live release take calls, and why
// none does. The scheduler writes it; reading is one map access, so it may be read for every call.
import type { Address } from "#drivers/driver.ts";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";

/** A replica that takes calls. Frozen; the same object for as long as the replica is ready. */
export type ReadyReplica = {
  readonly replicaId: ReplicaId;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly address: Address;
  /** The most calls to send at once. */
  readonly concurrency: number;
};

/**
 * Why calls of an app need not wait: no replica takes calls, none is starting, and none will be tried before
 * `retryAtMs`. It is gone as soon as there is hope again, so whoever sees it may answer waiting calls with `reason`.
 */
export type StartFailure = {
  /**
   * `no_capacity`: no compute type that the app asks for is to be had here, or not within the project's limits, and waiting
   * alone will not change that. `stopped`: a budget has stopped the app.
   */
  readonly kind: "start_failed" | "no_capacity" | "stopped";
  /** A sentence for the app's owner. */
  readonly reason: string;
  /** When starting is tried again, in `Clock.monotonicMs`; null: not before the app or the platform is changed. */
  readonly retryAtMs: number | null;
};

/** True when another program than the replica listens where calls would go: it must get no byte of them. */
export function isTaken(address: Address): boolean {
  return "port" in address && address.isOwn?.() === false;
}

/** What became of one app. */
export type AppReplicas = { readonly ready: readonly ReadyReplica[]; readonly failure: StartFailure | undefined };

type Listener = (appId: AppId) => void;

const none: readonly ReadyReplica[] = Object.freeze([]);

/** Ready replicas of all apps, in memory. */
export class ReplicaView {
  readonly #apps = new Map<AppId, AppReplicas>();
  readonly #listeners = new Set<Listener>();

  /** Replicas that take calls, oldest first. A frozen array that is another one only after a change. */
  ready(appId: AppId): readonly ReadyReplica[] {
    return this.#apps.get(appId)?.ready ?? none;
  }

  /** Why waiting is of no use now; undefined while a replica is ready, starting, or about to be started. */
  failure(appId: AppId): StartFailure | undefined {
    return this.#apps.get(appId)?.failure;
  }

  /** Calls `listener` after each change of `ready` or `failure` of an app, within the change. Returns how to end it. */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Puts what holds for an app now; listeners are told only when it differs. Only the scheduler calls it. */
  put(appId: AppId, next: AppReplicas): void {
    const before = this.#apps.get(appId);
    const isSameReady = isSameList(before?.ready ?? none, next.ready);
    if (isSameReady && isSameFailure(before?.failure, next.failure)) return;
    if (next.ready.length === 0 && next.failure === undefined) {
      this.#apps.delete(appId);
    } else {
      const ready = isSameReady ? (before?.ready ?? none) : Object.freeze([...next.ready]);
      this.#apps.set(appId, { ready, failure: next.failure });
    }
    for (const listener of this.#listeners) listener(appId);
  }
}

function isSameList(left: readonly ReadyReplica[], right: readonly ReadyReplica[]): boolean {
  return left.length === right.length && left.every((replica, index) => replica === right[index]);
}

function isSameFailure(left: StartFailure | undefined, right: StartFailure | undefined): boolean {
  return left?.kind === right?.kind && left?.reason === right?.reason && left?.retryAtMs === right?.retryAtMs;
}
