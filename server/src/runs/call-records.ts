// Records plain calls after their end, behind the callers: they are gathered and written in batches, so many per second
// at most. A record is worth less than a call: what is too much, or cannot be written, is left out and counted.
import { Batcher } from "#lib/batcher.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";
import type { FinishedCall } from "#proxy/finished-call.ts";
import { callRecordOf, type CallRecord } from "./call-record.ts";
import { LeftOut, type LeftOutOptions } from "./left-out.ts";

/** `callRecordWriter` makes what writes. */
export type CallRecordsOptions = LeftOutOptions & {
  readonly write: (records: readonly CallRecord[]) => Promise<void>;
  /** The most records per second; half of them may be of one app. 2,000 unless given. */
  readonly perSecondMax?: number;
};

/** Calls that end within it are written together. */
const lingerMs = 200;
const batchMax = 1_000;
/** Records that wait while the database is away: some megabytes. */
const queueMax = 10_000;
/** Spans a restart of the database. */
const retryForMs = 30_000;

/** One for the platform. Stop with `stop()`, after the proxy. */
export class CallRecords {
  readonly #clock: Clock;
  readonly #perSecondMax: number;
  readonly #records: Batcher<CallRecord>;
  readonly #leftOut: LeftOut;
  #second = { beginMs: Number.NEGATIVE_INFINITY, count: 0, byApp: new Map<AppId, number>() };

  constructor(options: CallRecordsOptions) {
    const { write, clock, log, perSecondMax = 2_000 } = options;
    this.#clock = clock;
    this.#perSecondMax = perSecondMax;
    this.#leftOut = new LeftOut(options);
    this.#records = new Batcher({
      ...{ write, batchMax, queueMax, lingerMs, retryForMs, clock },
      onFailure: (error, { length }) =>
        log.warn({ err: error, records: length }, "records of calls could not be written"),
    });
  }

  /** Calls that were not recorded since the platform started. */
  get leftOutTotal(): number {
    return this.#leftOut.total;
  }

  /** Told of each call; returns at once and never throws. To be handed to the proxy as it is. */
  readonly onFinished = (call: FinishedCall): void => {
    if (this.#records.isFull || !this.#mayTake(call.appId)) return this.#leftOut.add(call);
    const record = callRecordOf(call);
    this.#records.add(record).catch(() => this.#leftOut.add(record));
  };

  /** Resolves when everything that was told so far is written or given up; waits for no repeats. Never rejects. */
  async stop(): Promise<void> {
    await this.#records.stop();
    await this.#leftOut.stop();
  }

  /** Counted per second of the clock; simple, and the records are a sample when there are too many. */
  #mayTake(appId: AppId): boolean {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#second.beginMs >= 1_000) this.#second = { beginMs: nowMs, count: 0, byApp: new Map() };
    const { byApp } = this.#second;
    const ofApp = byApp.get(appId) ?? 0;
    if (this.#second.count >= this.#perSecondMax || ofApp >= this.#perSecondMax / 2) return false;
    this.#second.count++;
    byApp.set(appId, ofApp + 1);
    return true;
  }
}
