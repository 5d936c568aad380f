// Marks the replicas to which an earlier process has sent runs as busy, so that the scheduler ends
// none of them as idle before this process has taken over its run.
import type { RunId } from "#lib/ids.ts";
import type { CalledApps } from "#proxy/called-apps.ts";
import type { RunStore } from "./run-store.ts";
import type { ReplicaRef } from "./runner.ts";

type HoldsParts = {
  readonly store: Pick<RunStore, "leftRunning">;
  readonly calledApps: Pick<CalledApps, "hold">;
};

/** The replicas that are held for runs of earlier processes. */
export class ReplicaHolds {
  readonly #parts: HoldsParts;
  /** For each run, the function that ends the hold on its replica. */
  readonly #releases = new Map<RunId, () => void>();

  constructor(parts: HoldsParts) {
    this.#parts = parts;
  }

  /** Holds the replicas of all runs that an earlier process had sent. */
  async holdAll(): Promise<void> {
    const { store, calledApps } = this.#parts;
    for (const { runId, appId, replicaId } of await store.leftRunning()) {
      this.#releases.set(runId, calledApps.hold(appId, replicaId));
    }
  }

  /**
   * Keeps the replica of a run busy until the caller calls the returned function. From here on,
   * `releaseOthers` and `releaseAll` do not release this replica for the run.
   */
  takeOver(runId: RunId, replica: ReplicaRef | null): () => void {
    const earlierHold = this.#releases.get(runId);
    this.#releases.delete(runId);
    if (earlierHold !== undefined) return earlierHold;
    if (replica === null) return () => undefined;
    return this.#parts.calledApps.hold(replica.appId, replica.replicaId);
  }

  /**
   * Releases the replicas of runs that no longer run, since another platform has taken over or
   * ended them.
   */
  async releaseOthers(): Promise<void> {
    if (this.#releases.size === 0) return;
    const left = await this.#parts.store.leftRunning();
    const stillRunning = new Set(left.map(({ runId }) => runId));
    for (const [runId, release] of this.#releases) {
      if (stillRunning.has(runId)) continue;
      this.#releases.delete(runId);
      release();
    }
  }

  releaseAll(): void {
    for (const release of this.#releases.values()) release();
  }
}
