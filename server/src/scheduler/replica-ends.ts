// Says why replicas ended where somebody may ask for it: in the app's log, and for the runs whose calls broke off with the replica,
// which get its reason and its last lines. A connection may break before or after the end is known, so each waits a moment for
// the other.
import type { ReplicaLine } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId, RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { LruMap } from "#lib/lru-map.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import type { Replica, ReplicaEnd, ReplicaRelease } from "./replica.ts";

/** Stores lines of apps; implemented by `logs/app-log.ts`. */
export interface LineStore {
  /** Resolves when the lines are stored. */
  append(lines: readonly (ReplicaLine & Pick<ReplicaRelease, "projectId" | "appId">)[]): Promise<void>;
  /** The replica's last stored lines that belong to no run, from `since` on, belong to these runs too. */
  assignLast(replicaId: ReplicaId, given: { readonly since: number; readonly runIds: readonly RunId[] }): Promise<void>;
}

/** An exit is known within milliseconds, on a busy machine within a second, in a container there within a few. */
const endWaitMs = 5_000;
const replicasMax = 1_000;
/** Runs per replica that get its last lines. */
const runsMax = 1_000;
/** The age of lines that may have to do with the end, including the time until they are stored. */
const lastLinesMs = 60_000;

/** One per scheduler. */
export class ReplicaEnds {
  readonly #parts: { readonly lines: LineStore; readonly clock: Clock; readonly log: Log };
  /** When this platform began: what ended before, such as by `slipway down`, surprises nobody. */
  readonly #sinceMs: number;
  readonly #replicas = new LruMap<
    ReplicaId,
    { readonly runs: Set<RunId>; readonly end: PromiseWithResolvers<string>; isTold: boolean; isReclaimed: boolean }
  >(replicasMax);

  constructor(parts: { readonly lines: LineStore; readonly clock: Clock; readonly log: Log }) {
    this.#parts = parts;
    this.#sinceMs = parts.clock.now();
  }

  /** A call broke off on the replica. The reason of the replica's end; null when it does not end within a moment. Never rejects. */
  async brokeOff(replicaId: ReplicaId, runId: RunId): Promise<string | null> {
    const known = this.#of(replicaId);
    if (known.runs.size < runsMax) known.runs.add(runId);
    const reason = await withDeadline(this.#parts.clock, endWaitMs, known.end.promise).catch(() => null);
    if (reason === null) known.runs.delete(runId);
    else if (known.isTold && known.runs.has(runId)) void this.#assignLines(replicaId);
    return reason;
  }

  /** The replica has ended; its lines may follow. */
  ended({ replicaId, endOrder }: Pick<Replica, "replicaId" | "endOrder">, end: Pick<ReplicaEnd, "reason">): void {
    const known = this.#of(replicaId);
    known.isReclaimed = endOrder?.kind === "reclaimed";
    known.end.resolve(endOrder?.reason ?? end.reason);
  }

  /** True when it has ended lately to make way for a protected one. */
  wasReclaimed(replicaId: ReplicaId): boolean {
    return this.#replicas.get(replicaId)?.isReclaimed === true;
  }

  /** All lines of the replica are stored. Unexpected ends are told, because a crash often prints nothing. */
  async tell({ replicaId, appId, release, endOrder }: Replica, end: ReplicaEnd): Promise<void> {
    const { lines, log } = this.#parts;
    const known = this.#of(replicaId);
    if (endOrder?.kind !== "wanted" || known.runs.size > 0) {
      const reason = endOrder?.reason ?? end.reason;
      if (endOrder?.kind === "reclaimed") log.info({ replicaId, appId }, "a replica has made way for a protected one");
      else if (end.at < this.#sinceMs)
        log.info({ replicaId, appId, reason }, "a replica ended while the platform was stopped");
      else log.warn({ replicaId, appId, reason }, "replica exited unexpectedly");
      const about = { replicaId, appId, projectId: release.projectId, runId: null };
      const text = `[slipway] The replica has ended: ${reason}`;
      const line = { ...about, at: end.at, stream: "stderr", text } as const;
      await lines.append([line]).catch((error: unknown) => {
        log.error({ err: error, replicaId }, "the end of a replica could not be written to its app's log");
      });
    }
    known.isTold = true;
    if (known.runs.size > 0) await this.#assignLines(replicaId);
  }

  async #assignLines(replicaId: ReplicaId): Promise<void> {
    const { lines, clock, log } = this.#parts;
    const { runs } = this.#of(replicaId);
    const runIds = [...runs];
    runs.clear();
    await lines.assignLast(replicaId, { since: clock.now() - lastLinesMs, runIds }).catch((error: unknown) => {
      log.error({ err: error, replicaId, runIds }, "the last lines of a replica could not be assigned to its runs");
    });
  }

  #of(replicaId: ReplicaId) {
    return this.#replicas.getOrInsertComputed(replicaId, () => {
      return { runs: new Set<RunId>(), end: Promise.withResolvers<string>(), isTold: false, isReclaimed: false };
    });
  }
}
