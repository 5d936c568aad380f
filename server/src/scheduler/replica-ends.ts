// Says why replicas ended where somebody may ask for it: in the app's log, and for the runs whose
// calls broke off with the replica, which get its reason and its last lines. A connection may break
// before or after the end is known, so each waits a moment for the other.
import { getOrInsert } from "#lib/get-or-insert.ts";
import type { ErrorQuote } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId, RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { LruMap } from "#lib/lru-map.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import type { Replica, ReplicaEnd } from "./replica.ts";
import type { LineStore } from "./replica-lines.ts";

/**
 * A call that broke off on a replica; `sinceMs` is when it was sent there, in milliseconds since
 * the epoch.
 */
export type BrokenCall = {
  readonly replicaId: ReplicaId;
  readonly runId: RunId;
  readonly sinceMs: number;
};

/** Why the replica of such a call has ended. */
export type EndOfReplica = {
  /** For the app's owner: may quote what the replica last wrote. */
  readonly reason: string;
  /** For callers: what a replica wrote may be about the call of another one. */
  readonly reasonForCaller: string;
};

/**
 * An exit is known within milliseconds, on a busy machine within a second, in a container there
 * within a few.
 */
const endWaitMs = 5_000;
/** An app that ends without a call, because of an error, has written it just before. */
const lastWordsMs = 2_000;
const replicasMax = 1_000;
/** Runs per replica that get its last lines. */
const runsMax = 1_000;
/** The age of lines that may have to do with the end, including the time until they are stored. */
const lastLinesMs = 60_000;

type Known = {
  /** Calls that broke off on it, and when they were sent there. */
  readonly calls: Map<RunId, number>;
  /** The runs whose end does not have the replica's last lines yet. */
  readonly runs: Set<RunId>;
  readonly end: PromiseWithResolvers<Pick<ReplicaEnd, "reason" | "quote">>;
  isReported: boolean;
  isReclaimed: boolean;
  /** Milliseconds since the epoch; Infinity while it runs. */
  endedAtMs: number;
};

/** One per scheduler. */
export class ReplicaEnds {
  readonly #parts: { readonly lines: LineStore; readonly clock: Clock; readonly log: Log };
  /** When this platform began: what ended before, such as by `slipway down`, surprises nobody. */
  readonly #sinceMs: number;
  readonly #replicas = new LruMap<ReplicaId, Known>(replicasMax);

  constructor(parts: { readonly lines: LineStore; readonly clock: Clock; readonly log: Log }) {
    this.#parts = parts;
    this.#sinceMs = parts.clock.now();
  }

  /**
   * A call broke off on the replica. The reason of the replica's end; null when it does not end
   * within `waitMs`. May be called for a call again. Never rejects.
   */
  async brokeOff(
    { replicaId, runId, sinceMs }: BrokenCall,
    waitMs = endWaitMs,
  ): Promise<EndOfReplica | null> {
    const known = this.#of(replicaId);
    if (known.calls.size < runsMax) known.calls.set(runId, sinceMs);
    if (known.runs.size < runsMax) known.runs.add(runId);
    const end = await withDeadline(this.#parts.clock, waitMs, known.end.promise).catch(() => null);
    if (end === null) {
      known.calls.delete(runId);
      known.runs.delete(runId);
      return null;
    }
    if (known.isReported && known.runs.has(runId)) void this.#assignLines(replicaId);
    const { quote, reason } = end;
    const reasonForCaller = quote?.reasonWithout ?? reason;
    return {
      reason: isOfCall(quote, known.calls, sinceMs) ? reason : reasonForCaller,
      reasonForCaller,
    };
  }

  /** True when calls broke off on the replica in the last moments. */
  hasBrokenCalls(replicaId: ReplicaId): boolean {
    return (this.#replicas.get(replicaId)?.calls.size ?? 0) > 0;
  }

  /**
   * The end as it is shown: quotes what the replica wrote only where that has to do with its end.
   * `isBusy`: calls run there.
   */
  shown(replicaId: ReplicaId, end: ReplicaEnd, isBusy: boolean): ReplicaEnd {
    const { quote, ...rest } = end;
    if (quote === undefined) return end;
    const calls = this.#replicas.get(replicaId)?.calls;
    const isOfEnd =
      calls === undefined || calls.size === 0
        ? !isBusy && end.at - quote.at < lastWordsMs
        : isOfCall(quote, calls, Math.min(...calls.values()));
    return isOfEnd ? rest : { ...rest, reason: quote.reasonWithout };
  }

  /** The replica has ended; its lines may follow. */
  ended({ replicaId, endOrder }: Pick<Replica, "replicaId" | "endOrder">, end: ReplicaEnd): void {
    const known = this.#of(replicaId);
    known.isReclaimed = endOrder?.kind === "reclaimed";
    known.endedAtMs = end.at;
    known.end.resolve(endOrder === null ? end : { reason: endOrder.reason });
  }

  /** True when it has ended lately to make way for a protected one. */
  wasReclaimed(replicaId: ReplicaId): boolean {
    return this.#replicas.get(replicaId)?.isReclaimed === true;
  }

  /**
   * All lines of the replica are stored. Unexpected ends are reported, because a crash often prints
   * nothing.
   */
  async tell({ replicaId, appId, release, endOrder }: Replica, end: ReplicaEnd): Promise<void> {
    const { lines, log } = this.#parts;
    const known = this.#of(replicaId);
    if (endOrder?.kind !== "wanted" || known.runs.size > 0) {
      const reason = endOrder?.reason ?? end.reason;
      if (endOrder?.kind === "reclaimed")
        log.info({ replicaId, appId }, "a replica has made way for a protected one");
      else if (end.at < this.#sinceMs)
        log.info({ replicaId, appId, reason }, "a replica ended while the platform was stopped");
      else log.warn({ replicaId, appId, reason }, "replica exited unexpectedly");
      const about = { replicaId, appId, projectId: release.projectId, runId: null };
      const text = `[slipway] The replica has ended: ${reason}`;
      const line = { ...about, at: end.at, stream: "stderr", text } as const;
      await lines.append([line]).catch((error: unknown) => {
        log.error(
          { err: error, replicaId },
          "the end of a replica could not be written to its app's log",
        );
      });
    }
    known.isReported = true;
    if (known.runs.size > 0) await this.#assignLines(replicaId);
  }

  async #assignLines(replicaId: ReplicaId): Promise<void> {
    const { lines, clock, log } = this.#parts;
    const { runs, endedAtMs } = this.#of(replicaId);
    const runIds = [...runs];
    runs.clear();
    // All that it printed is stored before, which may take minutes.
    const since = Math.min(clock.now(), endedAtMs) - lastLinesMs;
    await lines.assignLast(replicaId, { since, runIds }).catch((error: unknown) => {
      log.error(
        { err: error, replicaId, runIds },
        "the last lines of a replica could not be assigned to its runs",
      );
    });
  }

  #of(replicaId: ReplicaId) {
    return getOrInsert(this.#replicas, replicaId, () => {
      return {
        calls: new Map<RunId, number>(),
        runs: new Set<RunId>(),
        end: Promise.withResolvers<Pick<ReplicaEnd, "reason" | "quote">>(),
        isReported: false,
        isReclaimed: false,
        endedAtMs: Infinity,
      };
    });
  }
}

/**
 * True when the line was written since the call was sent to the replica, and not by a call that has
 * ended there in order.
 */
function isOfCall(
  quote: ErrorQuote | undefined,
  calls: ReadonlyMap<RunId, number>,
  sinceMs: number,
): boolean {
  if (quote === undefined || quote.at < sinceMs) return false;
  return quote.runId === null || calls.has(quote.runId);
}
