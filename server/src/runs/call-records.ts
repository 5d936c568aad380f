// Records finished plain calls in the background: collects and writes them in batches, up to a
// limit per second. Of the successful calls of each app it records a sample. A record matters less
// than a call: calls that are not in the sample, exceed the limit or cannot be written are left out
// and counted. Charts and bills do not use records.
import { Batcher } from "#lib/batcher.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import type { FinishedCall } from "#proxy/finished-call.ts";
import type { BrokenCall, EndOfReplica } from "#scheduler/replica-ends.ts";
import { callRecordOf, isBrokenOff, stateOf, type CallRecord } from "./call-record.ts";
import { LeftOut, type LeftOutOptions } from "./left-out.ts";

/** What `CallRecords` needs; `callRecordWriter` makes the functions that write. */
export type CallRecordsOptions = LeftOutOptions & {
  readonly write: (records: readonly CallRecord[]) => Promise<void>;
  /** Why the call's replica has ended; null when it does not end within a moment. Never rejects. */
  readonly whyBrokenOff: (call: BrokenCall) => Promise<EndOfReplica | null>;
  /**
   * The maximum number of records per second; one app may have half of them. The default is 2,000.
   */
  readonly perSecondMax?: number;
  /**
   * How many successful calls of each app of the project are recorded per minute. The first calls
   * of the minute are recorded, the others are left out.
   */
  readonly successesOf: (projectId: ProjectId) => number;
};

/** Calls that end within this time are written together. */
const lingerMs = 200;
/** How many records one statement writes. */
const batchMax = 1_000;
/** How many records may wait while the database is unavailable; they take some megabytes. */
const queueMax = 10_000;
/** How long a failed write is tried again: long enough for a restart of the database. */
const retryForMs = 30_000;

/** Records calls; one per platform. Stop it with `stop()`, after the proxy. */
export class CallRecords {
  readonly #clock: Clock;
  readonly #perSecondMax: number;
  readonly #records: Batcher<CallRecord>;
  readonly #leftOut: LeftOut;
  readonly #whyBrokenOff: CallRecordsOptions["whyBrokenOff"];
  /** Records that wait for the reason why their calls broke off. */
  readonly #waiting = new Set<Promise<void>>();
  /** Limits how many successful calls of each app are recorded per minute. */
  readonly #successes: RateLimit;
  readonly #successesOf: (projectId: ProjectId) => number;
  /** How many records were made in the current second, in all and by app. */
  #second = { beginMs: Number.NEGATIVE_INFINITY, count: 0, byApp: new Map<AppId, number>() };

  constructor(options: CallRecordsOptions) {
    const { write, clock, log, perSecondMax = 2_000, successesOf } = options;
    // The maximum depends on the project; each use of the limit passes it.
    this.#successes = new RateLimit({ max: Infinity, clock });
    this.#successesOf = successesOf;
    this.#clock = clock;
    this.#perSecondMax = perSecondMax;
    this.#whyBrokenOff = options.whyBrokenOff;
    this.#leftOut = new LeftOut(options);
    this.#records = new Batcher({
      write,
      batchMax,
      queueMax,
      lingerMs,
      retryForMs,
      clock,
      onFailure: (error, { length }) =>
        log.warn({ err: error, records: length }, "records of calls could not be written"),
    });
  }

  /** Calls not recorded since the platform started. */
  get leftOutTotal(): number {
    return this.#leftOut.total;
  }

  /**
   * Handles each finished call; returns at once and never throws. Bound, so it can be passed to the
   * proxy directly.
   */
  readonly onFinished = (call: FinishedCall): void => {
    const isWanted = stateOf(call) !== "success" || this.#isInSample(call);
    if (!isWanted || this.#records.isFull || !this.#tryTake(call.appId))
      return this.#leftOut.add(call);
    const { replicaId, runId, begunAt } = call;
    const needsReason = replicaId !== null && isBrokenOff(call) && !call.isReasonOfApp;
    const why = needsReason
      ? this.#whyBrokenOff({ replicaId, runId, sinceMs: begunAt })
      : undefined;
    if (why === undefined || this.#waiting.size >= queueMax) return this.#add(callRecordOf(call));
    const added = why.then((end) => {
      this.#waiting.delete(added);
      this.#add(callRecordOf(call, end?.reason));
    });
    this.#waiting.add(added);
  };

  /**
   * Counts the successful call, and says whether it is among the first of the minute, which are
   * recorded.
   */
  #isInSample({ appId, projectId }: FinishedCall): boolean {
    return this.#successes.tryTake(appId, this.#successesOf(projectId));
  }

  #add(record: CallRecord): void {
    this.#records.add(record).catch(() => this.#leftOut.add(record));
  }

  /**
   * Resolves when every earlier call is written or given up; does not wait for retries. Never
   * rejects.
   */
  async stop(): Promise<void> {
    await Promise.all(this.#waiting);
    await this.#records.stop();
    await this.#leftOut.stop();
  }

  /**
   * Counts the call if the limits of this second allow it. Under high load the records are only a
   * sample.
   */
  #tryTake(appId: AppId): boolean {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#second.beginMs >= 1_000)
      this.#second = { beginMs: nowMs, count: 0, byApp: new Map() };
    const { byApp } = this.#second;
    const ofApp = byApp.get(appId) ?? 0;
    if (this.#second.count >= this.#perSecondMax || ofApp >= this.#perSecondMax / 2) return false;
    this.#second.count++;
    byApp.set(appId, ofApp + 1);
    return true;
  }
}
