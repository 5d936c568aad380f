// Records plain calls after their end, behind the callers: they are gathered and written in batches, so many per second
// at most. A record is worth less than a call: what is too much, or cannot be written, is left out and counted.
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { AppId } from "#lib/ids.ts";
import type { FinishedCall } from "#proxy/finished-call.ts";
import { recordOf, type CallRecord } from "./call-record.ts";
import { LeftOut, type LeftOutOptions } from "./left-out.ts";

/** `callRecordWriter` makes what writes. */
export type CallRecordsOptions = LeftOutOptions & {
  readonly write: (records: readonly CallRecord[]) => Promise<void>;
  /** The most records per second; half of them may be of one app. 2,000 unless given. */
  readonly perSecondMax?: number;
};

/** Calls that end within it are written together. */
const gatherMs = 200;
const batchMax = 1_000;
/** Records that wait while the database is away: some megabytes. */
const waitingMax = 10_000;
const triesMax = 5;
const retryBackoff: Backoff = { firstMs: 100, factor: 3, mostMs: 5_000, jitter: 0.2 };

/** One for the platform. Stop with `flush()`, after the proxy. */
export class CallRecords {
  readonly #options: CallRecordsOptions;
  readonly #perSecondMax: number;
  #waiting: CallRecord[] = [];
  #running: Promise<void> | undefined;
  #cancelGather: (() => void) | undefined;
  #second = { beginMs: Number.NEGATIVE_INFINITY, count: 0, byApp: new Map<AppId, number>() };
  readonly #leftOut: LeftOut;
  #stopping = new AbortController();

  constructor(options: CallRecordsOptions) {
    this.#options = options;
    this.#leftOut = new LeftOut(options);
    this.#perSecondMax = options.perSecondMax ?? 2_000;
  }

  /** Told of each call; returns at once and never throws. To be handed to the proxy as it is. */
  readonly onFinished = (call: FinishedCall): void => {
    if (!this.#mayTake(call.appId)) return this.#leftOut.add(call);
    this.#waiting.push(recordOf(call));
    if (this.#waiting.length >= batchMax) this.#begin();
    else this.#cancelGather ??= this.#options.clock.after(gatherMs, () => this.#begin());
  };

  /** Resolves when everything that was told so far is written or given up; waits for no repeats. Never rejects. */
  async flush(): Promise<void> {
    this.#stopping.abort(new Error("records of calls are flushed"));
    this.#begin();
    while (this.#running !== undefined) await this.#running;
    this.#stopping = new AbortController();
    await this.#leftOut.flush();
  }

  /** Counted per second of the clock; simple, and the records are a sample when there are too many. */
  #mayTake(appId: AppId): boolean {
    if (this.#waiting.length >= waitingMax) return false;
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - this.#second.beginMs >= 1_000) this.#second = { beginMs: nowMs, count: 0, byApp: new Map() };
    const { byApp } = this.#second;
    const ofApp = byApp.get(appId) ?? 0;
    if (this.#second.count >= this.#perSecondMax || ofApp >= this.#perSecondMax / 2) return false;
    this.#second.count++;
    byApp.set(appId, ofApp + 1);
    return true;
  }

  #begin(): void {
    this.#cancelGather?.();
    this.#cancelGather = undefined;
    if (this.#waiting.length > 0) this.#running ??= this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, batchMax);
      this.#waiting = this.#waiting.slice(batchMax);
      await this.#write(batch);
    }
    // No await since nothing was left: what comes from here on starts it again.
    this.#running = undefined;
  }

  async #write(batch: readonly CallRecord[]): Promise<void> {
    const { write, clock, log } = this.#options;
    for (let attempt = 1; attempt <= triesMax; attempt++) {
      try {
        return await write(batch);
      } catch (error) {
        log.warn({ err: error, records: batch.length, attempt }, "records of calls could not be written");
      }
      const { signal } = this.#stopping;
      if (signal.aborted) break;
      await clock.sleep(backoffMs(retryBackoff, attempt, clock.random()), signal).catch(() => undefined);
    }
    for (const record of batch) this.#leftOut.add(record);
  }
}
