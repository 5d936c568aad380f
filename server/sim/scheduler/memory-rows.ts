// Rows of replicas in memory, with the same rules as the table: which states a change may leave, one row an id.
import type { ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { AliveRow, NewReplicaRow, ReplicaChange, ReplicaRows, StoredRelease } from "#scheduler/replica-rows.ts";
import { canMove, type ReplicaState } from "#scheduler/replica-state.ts";

/** One row. */
export type MemoryRow = NewReplicaRow & {
  state: ReplicaState;
  address: AliveRow["address"];
  lastKnownAt: number;
  startedAt: number | null;
  drainingAt: number | null;
  stoppedAt: number | null;
  reason: string | null;
};

/** The database of a simulation; it outlives the platform's process. */
export class MemoryRows implements ReplicaRows {
  readonly rows = new Map<ReplicaId, MemoryRow>();
  readonly releases = new Map<ReleaseId, StoredRelease>();

  insert(row: NewReplicaRow): Promise<void> {
    if (this.rows.has(row.replicaId)) return Promise.reject(new Error(`row ${row.replicaId} exists`));
    this.rows.set(row.replicaId, {
      ...row,
      state: "starting",
      address: null,
      lastKnownAt: row.createdAt,
      startedAt: null,
      drainingAt: null,
      stoppedAt: null,
      reason: null,
    });
    return Promise.resolve();
  }

  change(replicaId: ReplicaId, change: ReplicaChange): Promise<void> {
    const row = this.rows.get(replicaId);
    const isAllowed =
      change.kind === "started" ? row?.state === "starting" : canMove(row?.state ?? "stopped", change.kind);
    if (row === undefined || !isAllowed) return Promise.resolve();
    if (change.kind !== "started") row.state = change.kind;
    if (change.kind !== "stopped") row.lastKnownAt = Math.max(row.lastKnownAt, change.at);
    if (change.kind === "started") row.startedAt ??= change.at;
    if (change.kind === "started" || change.kind === "ready") row.address = change.address ?? row.address;
    if (change.kind === "draining") row.drainingAt = change.at;
    if (change.kind === "stopped") Object.assign(row, { stoppedAt: change.at, reason: change.reason });
    return Promise.resolve();
  }

  seen(sightings: Parameters<ReplicaRows["seen"]>[0]): Promise<void> {
    for (const { replicaId, at } of sightings) {
      const row = this.rows.get(replicaId);
      if (row !== undefined && row.stoppedAt === null) row.lastKnownAt = Math.max(row.lastKnownAt, at);
    }
    return Promise.resolve();
  }

  alive(): Promise<readonly AliveRow[]> {
    const alive = [...this.rows.values()].flatMap((row) => {
      const settings = this.releases.get(row.releaseId)?.settings;
      return row.state === "stopped" || settings === undefined ? [] : [{ ...row, state: row.state, settings }];
    });
    return Promise.resolve(alive);
  }

  release(releaseId: ReleaseId): Promise<StoredRelease | undefined> {
    return Promise.resolve(this.releases.get(releaseId));
  }
}
