// Starts single replicas on the driver: reserves their capacity in a pool, stores their rows, hands
// the driver their release and environment, and clears up after a failed start. The scheduler
// decides how many replicas there should be.
import { randomUUID } from "node:crypto";
import { StartRefused, type Driver, type ReplicaSpec } from "#drivers/driver.ts";
import type { PoolWish } from "#drivers/pools/choose-pool.ts";
import type { PoolClaim, PoolRequest } from "#drivers/pools/pool.ts";
import { must } from "#lib/assert.ts";
import { newReplicaId, type AppId, type ReleaseId, type ReplicaId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Counters } from "./counters.ts";
import { Replica, type Fleet, type ReplicaRelease } from "./replica.ts";
import type { ReplicaRemoval } from "./replica-removal.ts";
import type { Backend, ReplicaRows, StoredRelease } from "./replica-rows.ts";
import { replicaRow, replicaSpec } from "./replica-spec.ts";
import type { ReplicaWatch } from "./replica-watch.ts";
import type { RowWriter } from "./row-writer.ts";

/** The environment of an app's replicas, including secrets; may change between starts. */
export type EnvironmentOf = (appId: AppId) => Promise<Readonly<Record<string, string | Secret>>>;

type StarterParts = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Pick<Driver, "pools" | "start" | "stop">;
  readonly backend: Backend;
  readonly rows: Pick<ReplicaRows, "release">;
  readonly writer: RowWriter;
  readonly fleet: Fleet;
  readonly environmentOf: EnvironmentOf;
  /**
   * How often an app has been restarted. This is read before the environment, so that a start that
   * counts a restart also has the environment for which the restart was requested.
   */
  readonly restartsOf: (appId: AppId) => number;
  readonly counters: Counters;
  readonly watch: ReplicaWatch;
  readonly removal: ReplicaRemoval;
  /** Called when the replicas of an app have changed, or the calls that they can take. */
  readonly onChange: (appId: AppId) => void;
};

type StartOptions = {
  readonly request: PoolRequest;
  /** What other releases need, which the start leaves free. */
  readonly ahead: readonly PoolWish[];
  /** The maximum time from running to ready. */
  readonly deadlineMs: number;
  readonly isTrial?: boolean;
};

/** Releases never change, so they are cached; this is the cache's limit. */
const releasesMax = 1000;

/** Starts replicas. */
export class ReplicaStarter {
  readonly #parts: StarterParts;
  readonly #releases = new LruMap<ReleaseId, StoredRelease>(releasesMax);
  /** Replicas whose start the driver has not answered. */
  readonly #creating = new Set<Replica>();

  constructor(parts: StarterParts) {
    this.#parts = parts;
  }

  /** Starts a replica in the background. It counts as starting when this returns. */
  start(release: ReplicaRelease, options: StartOptions): Replica {
    const { request } = options;
    const { clock, counters, driver, fleet, onChange, restartsOf, watch } = this.#parts;
    const nowMs = clock.now();
    const replica = new Replica({
      replicaId: newReplicaId(release.settings.name),
      release,
      gpus: request.gpuCount,
      beganAtMs: clock.monotonicMs(),
      createdAtMs: nowMs,
      seenAtMs: nowMs,
      restarts: restartsOf(release.appId),
      isTrial: options.isTrial === true,
    });
    // The trial sets another time once the replica is ready, or ends the replica.
    if (replica.isTrial) replica.heldUntilMs = Number.POSITIVE_INFINITY;
    // The capacity is reserved at once, so that no other start gets it meanwhile. Without a claim,
    // the driver looks for capacity once more, and refuses the start when there is none.
    const claim = driver.pools.reserve(replica.replicaId, request, options.ahead);
    fleet.add(replica);
    counters.starts++;
    replica.deadlineMs = options.deadlineMs;
    watch.awaitRunning(replica);
    this.#creating.add(replica);
    replica.creating = this.#create(replica, request, claim).finally(() => {
      replica.creating = null;
      this.#creating.delete(replica);
      onChange(replica.appId);
    });
    return replica;
  }

  /** What the driver would get for the start of a replica with an id of its own, without cards. */
  async specOf({
    appId,
    releaseId,
  }: Pick<ReplicaRelease, "appId" | "releaseId">): Promise<ReplicaSpec> {
    const [stored, environment] = await Promise.all([
      this.#release(releaseId),
      this.#parts.environmentOf(appId),
    ]);
    const replicaId = newReplicaId(stored.settings.name);
    return replicaSpec(stored, { replicaId, compute: "CPU", environment });
  }

  /** Waits at most `waitMs` for starts that the driver has not answered, then abandons them. */
  async settle(waitMs: number): Promise<void> {
    const cancel = this.#parts.clock.after(waitMs, () => {
      for (const { abort } of this.#creating) abort.abort(new Error("the platform stops"));
    });
    await Promise.all(Array.from(this.#creating, async ({ creating }) => await creating));
    cancel();
  }

  async #create(
    replica: Replica,
    { compute, provider, region }: PoolRequest,
    claim: PoolClaim | null,
  ): Promise<void> {
    const { driver, backend, environmentOf, writer } = this.#parts;
    const { release, replicaId, restarts, isTrial } = replica;
    const { signal } = replica.abort;
    // A pool for any provider or region names none: the row then has what the app requested.
    const pool = driver.pools.all.find(({ name }) => name === claim?.pool);
    const row = replicaRow(release, {
      replicaId,
      compute,
      isTrial,
      restarts,
      backend,
      provider: pool?.provider ?? provider,
      region: pool?.region ?? region,
      createdAt: replica.timeAt(replica.beganAtMs),
    });
    try {
      // The row is stored before the replica exists, so that no replica ever runs unrecorded.
      const [, stored, environment] = await Promise.all([
        writer.insert(row),
        this.#release(release.releaseId),
        environmentOf(release.appId),
      ]);
      signal.throwIfAborted();
      await driver.start(replicaSpec(stored, { replicaId, compute, environment }), signal);
    } catch (error) {
      await this.#abandon(replica, error);
    }
  }

  async #release(releaseId: ReleaseId): Promise<StoredRelease> {
    const cached = this.#releases.get(releaseId);
    if (cached !== undefined) return cached;
    const stored = must(
      await this.#parts.rows.release(releaseId),
      `release ${releaseId} is not stored`,
    );
    this.#releases.set(releaseId, stored);
    return stored;
  }

  /**
   * Handles a failed start. The replica's end is written after the insert of its row, whether that
   * has succeeded or failed.
   */
  async #abandon(replica: Replica, error: unknown): Promise<void> {
    const { clock, driver, log, removal } = this.#parts;
    const { replicaId } = replica;
    const isAborted = replica.abort.signal.aborted;
    if (error instanceof StartRefused) {
      const reason = isAborted ? "The platform stopped." : error.message;
      const isExternal = error.kind === "no_capacity";
      const isRefused = !isExternal;
      removal.remove(replica, {
        reason,
        exitCode: null,
        at: clock.now(),
        isExternal,
        isRefused,
      });
      return;
    }
    // Only a refusal guarantees that nothing was left behind.
    await driver.stop(replicaId, { graceMs: 0 }).catch((cause: unknown) => {
      log.warn({ err: cause, replicaId }, "could not clear up after a failed start");
    });
    const reason = isAborted ? "The platform stopped." : this.#internalFault(replicaId, error);
    removal.remove(replica, { reason, exitCode: null, at: clock.now() });
  }

  #internalFault(replicaId: ReplicaId, error: unknown): string {
    const faultId = randomUUID();
    this.#parts.log.error({ err: error, replicaId, faultId }, "could not start a replica");
    return `The platform could not start it (fault ${faultId}).`;
  }
}
