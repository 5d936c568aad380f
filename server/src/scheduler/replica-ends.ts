// Reports why replicas have ended: in the app's log, and to the runs whose calls broke off with the
// replica, which also get its last lines. A connection may break before or after the end of its
// replica is known; a broken call waits a moment for the end.
import { getOrInsert } from "#lib/get-or-insert.ts";
import type { ErrorQuote } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId, RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { LruMap } from "#lib/lru-map.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import type { Replica, ReplicaEnd } from "./replica.ts";
import type { LineStore } from "./replica-lines.ts";

/** A call that broke off on a replica. */
export type BrokenCall = {
  readonly replicaId: ReplicaId;
  readonly runId: RunId;
  /** When the call was sent to the replica, in milliseconds since the epoch. */
  readonly sinceMs: number;
};

/** Why the replica of a broken call has ended. */
export type EndOfReplica = {
  /** For the app's owner: may quote the replica's last output. */
  readonly reason: string;
  /** For callers: without a quote, since the output may be about another caller's call. */
  readonly reasonForCaller: string;
};

/**
 * How long a call waits for the end of its replica. The exit of a process is known within
 * milliseconds, on a busy machine within a second; that of a container within a few seconds.
 */
const endWaitMs = 5_000;
/**
 * If an app ends while it has no calls, an error explains the end only if it was printed at most
 * this long before.
 */
const quoteAgeMsMax = 2_000;
/** How many replicas are remembered; beyond that, the least recently used one is forgotten. */
const replicasMax = 1_000;
/** How many broken calls per replica are remembered, and so how many runs get its last lines. */
const runsMax = 1_000;
/** Lines that are at most this much older than the end of their replica belong to the end. */
const lastLinesMs = 60_000;

/** What is known of a replica that has ended, or on which calls broke off. */
type KnownReplica = {
  /** The calls that broke off, and when they were sent to the replica. */
  readonly calls: Map<RunId, number>;
  /** The runs that have not got the replica's last lines yet. */
  readonly runs: Set<RunId>;
  /** Resolves when the replica has ended. */
  readonly end: PromiseWithResolvers<Pick<ReplicaEnd, "reason" | "quote">>;
  /** True when all its lines are stored, and `report` takes no further runs into account. */
  isReported: boolean;
  /** True when the replica ended to make way for a protected one. */
  isReclaimed: boolean;
  /** In milliseconds since the epoch; Infinity while the replica runs. */
  endedAtMs: number;
};

/** Records how replicas ended; one per scheduler. */
export class ReplicaEnds {
  readonly #parts: { readonly lines: LineStore; readonly clock: Clock; readonly log: Log };
  /** When this platform began. An earlier end, such as by `slipway down`, needs no warning. */
  readonly #startedAtMs: number;
  readonly #replicas = new LruMap<ReplicaId, KnownReplica>(replicasMax);

  constructor(parts: { readonly lines: LineStore; readonly clock: Clock; readonly log: Log }) {
    this.#parts = parts;
    this.#startedAtMs = parts.clock.now();
  }

  /**
   * To be called when a call has broken off; may be called again for the same call. Resolves with
   * the end of the replica; null when it does not end within `waitMs`. Never rejects.
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
    // Before the report there is nothing to do here: the report assigns the lines to all runs.
    if (known.isReported && known.runs.has(runId)) void this.#assignLines(replicaId);
    const { quote, reason } = end;
    const reasonForCaller = quote?.reasonWithout ?? reason;
    return {
      reason: isOfCall(quote, known.calls, sinceMs) ? reason : reasonForCaller,
      reasonForCaller,
    };
  }

  /** True when calls have broken off on the replica, and it may be about to end. */
  hasBrokenCalls(replicaId: ReplicaId): boolean {
    return (this.#replicas.get(replicaId)?.calls.size ?? 0) > 0;
  }

  /**
   * The end as shown to the app's owner: with a quote of the replica's output only if that probably
   * explains the end. `isBusy`: the replica has running calls.
   */
  shown(replicaId: ReplicaId, end: ReplicaEnd, isBusy: boolean): ReplicaEnd {
    const { quote, ...rest } = end;
    if (quote === undefined) return end;
    const explainsEnd = this.#explainsEnd(replicaId, { quote, endedAtMs: end.at, isBusy });
    return explainsEnd ? rest : { ...rest, reason: quote.reasonWithout };
  }

  #explainsEnd(
    replicaId: ReplicaId,
    end: { readonly quote: ErrorQuote; readonly endedAtMs: number; readonly isBusy: boolean },
  ): boolean {
    const { quote, endedAtMs, isBusy } = end;
    const calls = this.#replicas.get(replicaId)?.calls;
    if (calls === undefined || calls.size === 0)
      return !isBusy && endedAtMs - quote.at < quoteAgeMsMax;
    const firstSentAtMs = Math.min(...calls.values());
    return isOfCall(quote, calls, firstSentAtMs);
  }

  /** To be called when the replica has ended; its last lines may be stored later. */
  ended({ replicaId, endOrder }: Pick<Replica, "replicaId" | "endOrder">, end: ReplicaEnd): void {
    const known = this.#of(replicaId);
    known.isReclaimed = endOrder?.kind === "reclaimed";
    known.endedAtMs = end.at;
    // If the platform has ended the replica, its output explains nothing.
    known.end.resolve(endOrder === null ? end : { reason: endOrder.reason });
  }

  /** True when the replica has ended lately because a protected one needed its resources. */
  wasReclaimed(replicaId: ReplicaId): boolean {
    return this.#replicas.get(replicaId)?.isReclaimed === true;
  }

  /**
   * To be called when all lines of an ended replica are stored. Adds a line to the app's log for an
   * unexpected end, because a crash often prints nothing.
   */
  async report({ replicaId, appId, release, endOrder }: Replica, end: ReplicaEnd): Promise<void> {
    const { lines, log } = this.#parts;
    const known = this.#of(replicaId);
    const isExpected = endOrder?.kind === "wanted" && known.runs.size === 0;
    if (!isExpected) {
      const reason = endOrder?.reason ?? end.reason;
      if (endOrder?.kind === "reclaimed")
        log.info({ replicaId, appId }, "a replica has made way for a protected one");
      else if (endOrder !== null)
        log.warn({ replicaId, appId, reason }, "the platform has ended a replica");
      else if (end.at < this.#startedAtMs)
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

  /** Assigns the replica's last lines to the runs that broke off on it. */
  async #assignLines(replicaId: ReplicaId): Promise<void> {
    const { lines, clock, log } = this.#parts;
    const { runs, endedAtMs } = this.#of(replicaId);
    const runIds = [...runs];
    runs.clear();
    // Counts back from the end of the replica and not from now, since it may take minutes until all
    // its lines are stored.
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
 * True when the quoted line may be about the broken call: it was written since the call was sent,
 * and by no call that ended regularly.
 */
function isOfCall(
  quote: ErrorQuote | undefined,
  calls: ReadonlyMap<RunId, number>,
  sinceMs: number,
): boolean {
  if (quote === undefined || quote.at < sinceMs) return false;
  return quote.runId === null || calls.has(quote.runId);
}
