// The proxy's view of replicas, held in memory: which replicas of an app take calls, how the calls
// are divided between their releases, or why none takes any. The scheduler writes it; reading is
// one map access, cheap enough for every call.
import type { Address } from "#drivers/driver.ts";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { AppStop } from "./allowance.ts";

/** A replica that takes calls. Frozen; the same object while the replica is ready. */
export type ReadyReplica = {
  readonly replicaId: ReplicaId;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly address: Address;
  /** The maximum number of concurrent calls to send. */
  readonly concurrency: number;
};

/**
 * Why it is useless for calls of an app to wait: no replica takes calls, none is starting, and no
 * start is tried before `retryAtMs`. A failure is removed as soon as a start is possible, so a
 * reader may answer waiting calls with `reason`.
 */
export type StartFailure = {
  /**
   * `start_failed`: replicas of the app fail to start. `no_capacity`: no requested compute type is
   * available here, or within the project's limits, and waiting alone does not change that.
   * `outage`: nothing can be started, and the app is not at fault. `deleted`: the app is gone. The
   * codes of `AppStop`: a budget or a person has stopped the app.
   */
  readonly kind: "start_failed" | "no_capacity" | "outage" | "deleted" | AppStop["code"];
  /** A sentence for the app's owner. */
  readonly reason: string;
  /**
   * When the next start is tried, by `Clock.monotonicMs`; null: not before the app or the platform
   * changes.
   */
  readonly retryAtMs: number | null;
};

/**
 * True when a program other than the replica listens on the replica's address. That program must
 * not get a byte of any call.
 */
export function isTaken(address: Address): boolean {
  // Without `isOwn`, no other program can listen there.
  return "port" in address && address.isOwn?.() === false;
}

/** The share of an app's calls that the replicas of a release get, from 0 to 1. */
export type ReleaseShare = { readonly releaseId: ReleaseId; readonly weight: number };

/** The current view of one app. */
export type AppReplicas = {
  /** The replicas that take calls, oldest first. */
  readonly ready: readonly ReadyReplica[];
  /** Why it is useless for calls to wait; undefined: it may help. */
  readonly failure: StartFailure | undefined;
  /** One for each release that has ready replicas; absent: at most one release has any. */
  readonly shares?: readonly ReleaseShare[] | undefined;
};

type Listener = (appId: AppId) => void;

const noReplicas: readonly ReadyReplica[] = Object.freeze([]);

/** Ready replicas of all apps, in memory. */
export class ReplicaView {
  readonly #apps = new Map<AppId, AppReplicas>();
  readonly #listeners = new Set<Listener>();

  /** Replicas that take calls, oldest first. The array is frozen, and replaced only on changes. */
  ready(appId: AppId): readonly ReadyReplica[] {
    return this.#apps.get(appId)?.ready ?? noReplicas;
  }

  /**
   * How calls are divided between releases; null: at most one release has ready replicas. The array
   * is replaced only on changes.
   */
  shares(appId: AppId): readonly ReleaseShare[] | null {
    return this.#apps.get(appId)?.shares ?? null;
  }

  /** The share of the app's calls that a release gets now, from 0 to 1. */
  weightOf(appId: AppId, releaseId: ReleaseId): number {
    const shares = this.shares(appId);
    if (shares !== null) return shares.find((share) => share.releaseId === releaseId)?.weight ?? 0;
    // Without shares, all ready replicas are of one release.
    return this.ready(appId)[0]?.releaseId === releaseId ? 1 : 0;
  }

  /** Like `weightOf`; null: no replica of the app takes calls. */
  shareNow(appId: AppId, releaseId: ReleaseId): number | null {
    return this.ready(appId).length === 0 ? null : this.weightOf(appId, releaseId);
  }

  /**
   * Why waiting is useless now; undefined while a replica is ready, starting, or about to start.
   */
  failure(appId: AppId): StartFailure | undefined {
    return this.#apps.get(appId)?.failure;
  }

  /**
   * Calls `listener` after each change of an app, synchronously. Returns a function that removes
   * it.
   */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Sets the current view of an app; notifies listeners only if it differs from the previous view.
   * Only the scheduler calls `put`.
   */
  put(appId: AppId, next: AppReplicas): void {
    const previous = this.#apps.get(appId);
    const previousReady = previous?.ready ?? noReplicas;
    const isSameReady = isSameList(previousReady, next.ready);
    const isSameDivision = isSameShares(previous?.shares, next.shares);
    if (isSameReady && isSameDivision && isSameFailure(previous?.failure, next.failure)) return;
    if (next.ready.length === 0 && next.failure === undefined) {
      // An app without an entry reads the same as this view.
      this.#apps.delete(appId);
    } else {
      // Readers compare the array itself, so it stays the same without a change.
      const ready = isSameReady ? previousReady : Object.freeze([...next.ready]);
      this.#apps.set(appId, {
        ready,
        failure: next.failure,
        shares: isSameDivision ? previous?.shares : next.shares,
      });
    }
    for (const listener of this.#listeners) listener(appId);
  }
}

function isSameList(left: readonly ReadyReplica[], right: readonly ReadyReplica[]): boolean {
  return left.length === right.length && left.every((replica, index) => replica === right[index]);
}

function isSameShares(
  left: AppReplicas["shares"] = [],
  right: AppReplicas["shares"] = [],
): boolean {
  return (
    left.length === right.length &&
    left.every(({ releaseId, weight }, index) => {
      const other = right[index];
      return other?.releaseId === releaseId && other.weight === weight;
    })
  );
}

function isSameFailure(left: StartFailure | undefined, right: StartFailure | undefined): boolean {
  return (
    left?.kind === right?.kind &&
    left?.reason === right?.reason &&
    left?.retryAtMs === right?.retryAtMs
  );
}
