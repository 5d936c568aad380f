// Queries on replicas and their releases, and on the scaling state of apps, which the scheduler
// stores so that its next process can go on from it.
import { sql } from "kysely";
import { hasReplicaEnded } from "#apps/app-removal-store.ts";
import { withDefaults } from "#apps/settings.ts";
import { readSettings, releaseSettings } from "#apps/stored-settings.ts";
import { formatAddress, parseAddress } from "#drivers/address.ts";
import type { Artifact } from "#drivers/driver.ts";
import { never } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { RemovalStep } from "#lib/retention.ts";
import { countRows, type Db } from "#store/database.ts";
import { rowsWhere } from "#store/older-rows.ts";
import type * as replicaRows from "./replica-rows.ts";
import { statesBefore, type ReplicaState } from "./replica-state.ts";

/** Rows of replicas in PostgreSQL. */
export class ReplicaStore implements replicaRows.ReplicaRows {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /**
   * Inserts one row in state `starting`. Takes share locks on the rows that the new row refers to.
   */
  async insert(row: replicaRows.NewReplicaRow): Promise<void> {
    await this.#db
      .insertInto("replicas")
      .values({
        id: row.replicaId,
        project_id: row.projectId,
        app_id: row.appId,
        release_id: row.releaseId,
        build_id: row.buildId,
        instance_id: row.backend.instanceId,
        driver: row.backend.name,
        is_trial: row.isTrial,
        state: "starting",
        compute: row.compute,
        compute_tier: row.computeTier,
        gpu_count: row.gpuCount,
        cpu_cores: row.cpuCores,
        memory_gb: row.memoryGb,
        provider: row.provider,
        region: row.region,
        restarts: row.restarts,
        created_at: new Date(row.createdAt),
      })
      .execute();
  }

  /**
   * Updates the row of one replica, unless the state of the row does not permit the change. Locks
   * the row.
   */
  async change(replicaId: ReplicaId, change: replicaRows.ReplicaChange): Promise<void> {
    await this.#db
      .updateTable("replicas")
      .set(columnsOf(change))
      .where("id", "=", replicaId)
      .where("state", "in", statesThatPermit(change.kind))
      .execute();
  }

  /**
   * Records in one statement when replicas were last seen. Locks their rows in the order of the
   * ids, as metering does, so that the two do not deadlock.
   */
  async seen(heartbeats: readonly replicaRows.Heartbeat[]): Promise<void> {
    await sql`
      with running as (
        select id, at from replicas
          join unnest(${heartbeats.map(({ replicaId }) => replicaId)}::text[], ${heartbeats.map(({ at }) => new Date(at))}::timestamptz[])
            as given (given_id, at) on given_id = id
         where stopped_at is null order by id for no key update of replicas
      )
      update replicas set seen_at = greatest(seen_at, running.at)
        from running where replicas.id = running.id`.execute(this.#db);
  }

  /**
   * Takes over rows that no platform looks after, then reads the rows of all replicas of this
   * backend that have not stopped: oldest first, each with the settings of its release.
   */
  async alive(backend: replicaRows.Backend): Promise<readonly replicaRows.AliveRow[]> {
    const { instanceId, name } = backend;
    await this.#takeOver(backend);
    const rows = await this.#db
      .selectFrom("replicas")
      .innerJoin("releases", "releases.id", "replicas.release_id")
      .where("replicas.stopped_at", "is", null)
      .where("replicas.instance_id", "=", instanceId)
      .where("replicas.driver", "=", name)
      .orderBy("replicas.created_at")
      .orderBy("replicas.id")
      .selectAll("replicas")
      .select("releases.settings")
      .select(
        sql<Date>`greatest(replicas.created_at, replicas.started_at, replicas.ready_at, replicas.draining_at, replicas.seen_at)`.as(
          "last_known_at",
        ),
      )
      .execute();
    return rows.map((row) => ({
      replicaId: row.id,
      projectId: row.project_id,
      appId: row.app_id,
      releaseId: row.release_id,
      buildId: row.build_id,
      state: aliveState(row.state),
      address: row.address === null ? null : parseAddress(row.address),
      ...settingsOf(row.app_id, row.settings),
      gpus: row.gpu_count,
      restarts: row.restarts,
      isTrial: row.is_trial,
      createdAt: row.created_at.getTime(),
      startedAt: row.started_at?.getTime() ?? null,
      readyAt: row.ready_at?.getTime() ?? null,
      drainingAt: row.draining_at?.getTime() ?? null,
      // An order to end always has a reason, although the column may be null.
      endOrder: row.end_kind === null ? null : { kind: row.end_kind, reason: row.reason ?? "" },
      graceEndsAt: row.grace_ends_at?.getTime() ?? null,
      lastKnownAt: row.last_known_at.getTime(),
    }));
  }

  /**
   * Takes over the rows without an instance, and on a shared backend also the rows of the
   * installation's other instances. If an instance has stored no id of an installation, its own id
   * counts as the id of one. Locks the rows that it takes over.
   */
  async #takeOver(backend: replicaRows.Backend): Promise<void> {
    const { instanceId, installationId, name, isShared } = backend;
    // Selects nothing if the backend is not shared.
    const otherInstances = this.#db
      .selectFrom("instances")
      .select("id")
      .where(sql`coalesce(installation_id, id)`, "=", installationId)
      .where(sql.lit(isShared), "=", true)
      .where("id", "<>", instanceId);
    await this.#db
      .updateTable("replicas")
      .set({ instance_id: instanceId })
      .where((row) =>
        row.or([row("instance_id", "is", null), row("instance_id", "in", otherInstances)]),
      )
      .where("driver", "=", name)
      .where("stopped_at", "is", null)
      .execute();
  }

  /**
   * Counts the replicas that have not stopped and belong to another instance or driver. No locks.
   */
  async countOthers({ instanceId, name }: replicaRows.Backend): Promise<number> {
    const running = this.#db.selectFrom("replicas").where("stopped_at", "is", null);
    return await countRows(
      running.where((row) =>
        row.or([row("instance_id", "<>", instanceId), row("driver", "<>", name)]),
      ),
    );
  }

  /** Reads the stored scaling state of all apps, in no order. No locks. */
  async scaling(): Promise<readonly replicaRows.StoredScaling[]> {
    return await this.#db.selectFrom("app_scaling").selectAll().execute();
  }

  /**
   * Writes the rows `changed` and deletes the rows of the apps `removed`, in one statement. Writes
   * no rows for apps that no longer exist.
   */
  async saveScaling(
    changed: readonly replicaRows.StoredScaling[],
    removed: readonly AppId[],
  ): Promise<void> {
    await sql`
      with gone as (
        delete from app_scaling where app_id = any (${removed}::text[])
      ), given as (
        select * from jsonb_to_recordset(${JSON.stringify(changed)}::jsonb) as given (
          app_id text, counts integer[], held_until timestamptz[], release_id uuid, failures integer,
          failed_at timestamptz, retry_at timestamptz, reason text, is_shown boolean)
      )
      insert into app_scaling (app_id, counts, held_until, release_id, failures, failed_at, retry_at, reason, is_shown)
      select app_id, counts, held_until, release_id, failures, failed_at, retry_at, reason, is_shown
        from given where exists (select from apps where apps.id = given.app_id) order by app_id
      on conflict (app_id) do update set counts = excluded.counts, held_until = excluded.held_until,
        release_id = excluded.release_id, failures = excluded.failures, failed_at = excluded.failed_at,
        retry_at = excluded.retry_at, reason = excluded.reason, is_shown = excluded.is_shown`.execute(
      this.#db,
    );
  }

  /**
   * One release by its id. No locks. Rejects with `Fault("not_usable")` when its settings cannot be
   * read.
   */
  async release(releaseId: ReleaseId): Promise<replicaRows.StoredRelease | undefined> {
    const row = await this.#db
      .selectFrom("releases")
      .where("id", "=", releaseId)
      .selectAll()
      .executeTakeFirst();
    if (row === undefined) return undefined;
    return {
      releaseId: row.id,
      projectId: row.project_id,
      appId: row.app_id,
      buildId: row.build_id,
      settings: releaseSettings(row.settings),
      artifact: row.artifact as Artifact,
    };
  }
}

/**
 * The settings of a stored replica, or defaults if its settings cannot be read. A replica with
 * unreadable settings receives no calls, but it must be ended and its end must be recorded.
 */
function settingsOf(
  appId: AppId,
  stored: unknown,
): Pick<replicaRows.AliveRow, "settings" | "unreadable"> {
  const settings = readSettings(stored);
  if (!(settings instanceof Fault)) return { settings };
  return { settings: withDefaults({ name: appId }), unreadable: settings.message };
}

/** The states in which a row permits the change. */
function statesThatPermit(kind: replicaRows.ReplicaChange["kind"]): ReplicaState[] {
  // A replica that has started stays in state `starting` until it is ready.
  return kind === "started" ? ["starting"] : statesBefore(kind);
}

/** What the change writes. */
function columnsOf(change: replicaRows.ReplicaChange) {
  const at = new Date(change.at);
  switch (change.kind) {
    case "started":
      return {
        // The first report of the start counts.
        started_at: sql<Date>`coalesce(started_at, ${at})`,
        address: formatAddress(change.address),
      };
    case "ready":
      return { state: "ready" as const, ready_at: at, address: formatAddress(change.address) };
    case "draining":
      return {
        state: "draining" as const,
        draining_at: at,
        grace_ends_at: new Date(change.graceEndsAt),
        end_kind: change.order.kind,
        reason: change.order.reason,
      };
    case "stopped":
      return {
        state: "stopped" as const,
        reason: change.reason,
        exit_code: change.exitCode,
        // The platform may learn of the start only after the end. The replica then counts as having
        // run for no time.
        stopped_at: sql<Date>`greatest(${at}::timestamptz, started_at)`,
      };
    default:
      return never(change);
  }
}

/**
 * The state of a row that the query has selected because its replica has not stopped. `stopped`
 * would be a bug, for which `never` throws.
 */
function aliveState(state: ReplicaState): Exclude<ReplicaState, "stopped"> {
  return state === "stopped" ? never(state as never) : state;
}

/** The app that a replica belongs to. */
export type AppOfReplica = {
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly name: string;
};

/**
 * The app of each replica, by the replica's id; without replicas whose app is deleted. No order, no
 * locks.
 */
export async function readAppsOf(
  db: Db,
  replicas: readonly ReplicaId[],
): Promise<ReadonlyMap<ReplicaId, AppOfReplica>> {
  if (replicas.length === 0) return new Map();
  const rows = await db
    .selectFrom("replicas")
    .innerJoin("apps", "apps.id", "replicas.app_id")
    .select(["replicas.id", "replicas.project_id", "apps.id as app_id", "apps.name"])
    .where("replicas.id", "in", replicas)
    .execute();
  return new Map(
    rows.map((row) => [row.id, { projectId: row.project_id, appId: row.app_id, name: row.name }]),
  );
}

/**
 * The step that deletes the rows of replicas that stopped before `before`: replicas of the app
 * `appId`, or of all apps if it is undefined. The row of a replica that started and is not metered
 * yet stays.
 */
export function stoppedReplicasStep(db: Db, before: Date, appId?: AppId): RemovalStep {
  const hasStopped = sql`stopped_at < ${before} and ${hasReplicaEnded}`;
  // The condition on `created_at` only lets the database use the index by app.
  const which =
    appId === undefined
      ? hasStopped
      : sql`app_id = ${appId} and created_at < ${before} and ${hasStopped}`;
  return rowsWhere(db, { name: "replicas", table: "replicas", which });
}
