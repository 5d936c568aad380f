// Counts unrecorded plain calls per app and writes the counts some seconds later, so that readers
// of the records see how many are missing. A count is stored once, even when the write is retried.
import { randomUUID } from "node:crypto";
import { Batcher } from "#lib/batcher.ts";
import type { AppId, AppKey } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { Foundation } from "#store/foundation.ts";

/** The number of unrecorded calls of an app. */
export type LeftOutCalls = AppKey & {
  /** The id of the row, which makes a repeated write harmless. */
  readonly id: string;
  readonly calls: number;
  /** When the latest call arrived, in milliseconds since the epoch. */
  readonly latestAt: number;
};

export type LeftOutOptions = Pick<Foundation, "clock" | "log"> & {
  readonly writeLeftOut: (rows: readonly LeftOutCalls[]) => Promise<void>;
};

type Call = AppKey & { readonly receivedAt: number };
/** A count that still changes. */
type Count = { -readonly [Name in keyof LeftOutCalls]: LeftOutCalls[Name] };

/** How long counts are collected before they are written: one row per app. */
const lingerMs = 5_000;
/**
 * The maximum number of rows in one write, one per app. Each row takes five parameters, and a
 * statement may have 65,535.
 */
const batchMax = 1_000;
/** How many counts, one per app, may wait for the database. */
const queueMax = 100_000;

/** Counts calls that were left out; one per platform. */
export class LeftOut {
  /** All calls that were left out since the platform started. */
  total = 0;
  readonly #log: Log;
  readonly #rows: Batcher<Count>;
  /** Counts that are not being written yet. */
  readonly #counts = new Map<AppId, Count>();

  constructor({ writeLeftOut, clock, log }: LeftOutOptions) {
    this.#log = log;
    this.#rows = new Batcher({
      batchMax,
      queueMax,
      lingerMs,
      retryForMs: Number.POSITIVE_INFINITY,
      clock,
      write: (rows) => {
        this.#close(rows);
        return writeLeftOut(rows);
      },
      onFailure: (error) =>
        log.warn({ err: error }, "the number of calls that were not recorded could not be written"),
    });
  }

  add({ projectId, appId, receivedAt }: Call): void {
    this.total++;
    const existing = this.#counts.get(appId);
    if (existing !== undefined) {
      existing.calls += 1;
      existing.latestAt = Math.max(existing.latestAt, receivedAt);
      return;
    }
    const count = { id: randomUUID(), projectId, appId, calls: 1, latestAt: receivedAt };
    this.#counts.set(appId, count);
    // Nothing is logged here: the queue is full only while writes fail or are slow, and each failed
    // write logs the reason. What has no space is missing in the counts, but not in `total`.
    this.#rows.add(count).catch(() => this.#counts.delete(appId));
  }

  /** Resolves when all counts are written, or one write has failed. Never rejects. */
  async stop(): Promise<void> {
    await this.#rows.stop();
  }

  /** Closes these rows: later calls are counted in new rows. */
  #close(rows: readonly Count[]): void {
    // When a write is repeated, its rows are closed already.
    const open = rows.filter((row) => this.#counts.get(row.appId) === row);
    if (open.length === 0) return;
    for (const { appId } of open) this.#counts.delete(appId);
    const leftOut = open.reduce((sum, { calls }) => sum + calls, 0);
    this.#log.warn({ leftOut }, "calls were not recorded, as there were too many");
  }
}
