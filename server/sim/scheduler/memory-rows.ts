// Rows of replicas in memory, with the same rules as the table: which states a change may leave,
// one row an id.
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type {
  AliveRow,
  Backend,
  Heartbeat,
  NewReplicaRow,
  ReplicaChange,
  ReplicaRows,
  StoredRelease,
  StoredScaling,
} from "#scheduler/replica-rows.ts";
import { canMove, type ReplicaState } from "#scheduler/replica-state.ts";

/** One row. */
export type MemoryRow = NewReplicaRow & {
  state: ReplicaState;
  readyAt: number | null;
  address: AliveRow["address"];
  lastKnownAt: number;
  startedAt: number | null;
  drainingAt: number | null;
  stoppedAt: number | null;
  reason: string | null;
  endOrder: AliveRow["endOrder"];
  graceEndsAt: number | null;
};

/** The database of a simulation; it outlives the platform's process. */
export class MemoryRows implements ReplicaRows {
  readonly rows = new Map<ReplicaId, MemoryRow>();
  readonly releases = new Map<ReleaseId, StoredRelease>();
  /** Called when a replica's row was written for the first time. */
  onInsert: (row: MemoryRow) => void = () => undefined;
  /** Called when a row has gone from one state to another. */
  onMove: (row: MemoryRow, before: ReplicaState) => void = () => undefined;
  readonly #scaling = new Map<AppId, StoredScaling>();

  insert(row: NewReplicaRow): Promise<void> {
    if (this.rows.has(row.replicaId))
      return Promise.reject(new Error(`row ${row.replicaId} exists`));
    const made: MemoryRow = {
      ...row,
      state: "starting",
      address: null,
      lastKnownAt: row.createdAt,
      startedAt: null,
      readyAt: null,
      drainingAt: null,
      stoppedAt: null,
      reason: null,
      endOrder: null,
      graceEndsAt: null,
    };
    this.rows.set(row.replicaId, made);
    this.onInsert(made);
    return Promise.resolve();
  }

  change(replicaId: ReplicaId, change: ReplicaChange): Promise<void> {
    const row = this.rows.get(replicaId);
    const isAllowed =
      change.kind === "started"
        ? row?.state === "starting"
        : canMove(row?.state ?? "stopped", change.kind);
    if (row === undefined || !isAllowed) return Promise.resolve();
    const before = row.state;
    if (change.kind !== "started") row.state = change.kind;
    if (change.kind !== "stopped") row.lastKnownAt = Math.max(row.lastKnownAt, change.at);
    if (change.kind === "started") row.startedAt ??= change.at;
    if (change.kind === "started" || change.kind === "ready")
      row.address = change.address ?? row.address;
    if (change.kind === "ready") row.readyAt = change.at;
    if (change.kind === "draining")
      Object.assign(row, {
        drainingAt: change.at,
        endOrder: change.order,
        graceEndsAt: change.graceEndsAt,
      });
    if (change.kind === "stopped")
      Object.assign(row, {
        stoppedAt: Math.max(change.at, row.startedAt ?? change.at),
        reason: change.reason,
      });
    if (row.state !== before) this.onMove(row, before);
    return Promise.resolve();
  }

  seen(heartbeats: readonly Heartbeat[]): Promise<void> {
    for (const { replicaId, at } of heartbeats) {
      const row = this.rows.get(replicaId);
      if (row !== undefined && row.stoppedAt === null)
        row.lastKnownAt = Math.max(row.lastKnownAt, at);
    }
    return Promise.resolve();
  }

  alive({ instanceId, name }: Backend): Promise<readonly AliveRow[]> {
    const isOwn = ({ backend }: MemoryRow): boolean =>
      backend.instanceId === instanceId && backend.name === name;
    return Promise.resolve(this.#alive([...this.rows.values()].filter(isOwn)));
  }

  /** As `alive`, whoever runs them. */
  aliveOfAll(): Promise<readonly AliveRow[]> {
    return Promise.resolve(this.#alive([...this.rows.values()]));
  }

  #alive(rows: readonly MemoryRow[]): readonly AliveRow[] {
    return rows.flatMap((row) => {
      const settings = this.releases.get(row.releaseId)?.settings;
      if (row.state === "stopped" || settings === undefined) return [];
      return [{ ...row, gpus: row.gpuCount, state: row.state, settings }];
    });
  }

  countOthers({ instanceId }: Backend): Promise<number> {
    const others = [...this.rows.values()].filter((row) => row.backend.instanceId !== instanceId);
    return Promise.resolve(others.filter(({ state }) => state !== "stopped").length);
  }

  scaling(): Promise<readonly StoredScaling[]> {
    return Promise.resolve([...this.#scaling.values()]);
  }

  saveScaling(changed: readonly StoredScaling[], removed: readonly AppId[]): Promise<void> {
    for (const row of changed) this.#scaling.set(row.app_id, row);
    for (const appId of removed) this.#scaling.delete(appId);
    return Promise.resolve();
  }

  release(releaseId: ReleaseId): Promise<StoredRelease | undefined> {
    return Promise.resolve(this.releases.get(releaseId));
  }
}
