// The output of apps: drivers append lines and wait until they are stored, users read pages and follow live.
import { Batcher } from "#lib/batcher.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";
import { PageTokens } from "#lib/page-token.ts";
import type { Db } from "#store/database.ts";
import type { Notifications } from "#store/notify.ts";
import {
  insertAppLines,
  lastAppLineId,
  listAppLines,
  listNewAppLines,
  type AppLine,
  type AppLineFilter,
  type AppLineCursor,
  type StoredAppLine,
} from "./app-log-store.ts";
import { cleanLine } from "./clean-line.ts";
import { LineRate, type LineRateLimits } from "./line-rate.ts";
import { Wake } from "./wake.ts";

/** A page of an app's lines; `nextToken` is null at the end. */
export type AppLogPage = { readonly lines: readonly StoredAppLine[]; readonly nextToken: string | null };

/** Lines per statement; each has 7 parameters, and PostgreSQL takes 65 535. */
const batchMax = 1_000;
const queueMax = 10_000;
/** Covers a restart of the database. */
const retryForMs = 30_000;
const queueWeightMax = 16_000_000;
/** The most lines of one append that are queued at once, so that a large append does not block other apps. */
const sliceMax = 500;
/** Covers an app's burst of output; the characters at once are what a driver keeps of unread output. */
const burstLimits: LineRateLimits = {
  linesAtOnce: 50_000,
  linesPerSecond: 5_000,
  charactersAtOnce: 32_000_000,
  charactersPerSecond: 4_000_000,
};
/** Covers the steady output of a busy app; an app that never stops fills the disk in weeks, not in hours. */
const lastingLimits: LineRateLimits = {
  linesAtOnce: 5_000_000,
  linesPerSecond: 500,
  charactersAtOnce: 1_000_000_000,
  charactersPerSecond: 100_000,
};
const followPageMax = 500;
/** A notification can be lost with its connection; a follower is then late by up to this. */
const followPollMs = 2_000;
const pageTokens = new PageTokens<AppLineCursor>({
  list: null,
  cursor: { at: "number", id: "number" },
  next: "nextPageToken",
});
const runIdForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Reads and writes lines of apps. Stop with `flush()`. */
export class AppLogs {
  readonly #db: Db;
  readonly #notifications: Notifications;
  readonly #clock: Clock;
  readonly #batcher: Batcher<AppLine>;
  readonly #paces: readonly LineRate[];
  readonly #stopping = new AbortController();

  constructor(options: { db: Db; notifications: Notifications; clock: Clock; limits?: readonly LineRateLimits[] }) {
    this.#db = options.db;
    this.#notifications = options.notifications;
    this.#clock = options.clock;
    const { limits = [burstLimits, lastingLimits], clock } = options;
    this.#paces = limits.map((one) => new LineRate({ limits: one, clock }));
    this.#batcher = new Batcher({
      write: (lines) => insertAppLines(this.#db, lines),
      weigh: ({ text }) => text.length,
      ...{ batchMax, queueMax, queueWeightMax, retryForMs, clock },
    });
  }

  /**
   * Resolves when the lines are stored, in order; rejects when the database stays unreachable. Waits while the queue is full,
   * and while the app exceeds its rate.
   */
  async append(lines: readonly AppLine[]): Promise<void> {
    for (let at = 0; at < lines.length; at += sliceMax) {
      const slice = lines.slice(at, at + sliceMax).map(clean);
      await this.#keepPace(slice);
      await this.#batcher.addWhenRoom(slice);
    }
  }

  /** Resolves when all lines taken so far are stored; ends all waits for the rate. For the end of the platform. */
  async flush(): Promise<void> {
    this.#stopping.abort(new Error("the logs are flushed"));
    await this.#batcher.flush();
  }

  async #keepPace(lines: readonly AppLine[]): Promise<void> {
    const appId = lines[0]?.appId;
    if (appId === undefined) return;
    const characters = lines.reduce((sum, { text }) => sum + text.length, 0);
    const waitMs = Math.max(...this.#paces.map((pace) => pace.take(appId, lines.length, characters)));
    // An abort ends the pause early, as intended.
    if (waitMs > 0) await this.#clock.sleep(waitMs, this.#stopping.signal).catch(() => undefined);
  }

  /** Lines of an app by time, oldest first when forward. Throws a fault for a token of another query. */
  async page(
    appId: AppId,
    wanted: AppLineFilter & {
      readonly direction: "forward" | "backward";
      readonly pageSize: number;
      readonly nextToken?: string | null;
    },
  ): Promise<AppLogPage> {
    const { direction, container, afterDate, beforeDate, search, stream, runId } = wanted;
    const query = [appId, direction, container, afterDate, beforeDate, search, stream, runId];
    const from = wanted.nextToken ? pageTokens.read(query, wanted.nextToken) : null;
    const found = await listAppLines(this.#db, appId, { ...wanted, from, limit: wanted.pageSize + 1 });
    const lines = found.slice(0, wanted.pageSize);
    const last = lines.at(-1);
    const hasMore = found.length > lines.length && last !== undefined;
    return { lines, nextToken: hasMore ? pageTokens.make(query, last) : null };
  }

  /** Pages of lines stored after the one with id `after` (absent: from now on), in storage order, until `signal` is aborted. */
  async *follow(
    appId: AppId,
    options: { after?: number; filter?: AppLineFilter; signal: AbortSignal },
  ): AsyncGenerator<readonly StoredAppLine[], void, undefined> {
    const { signal, filter = {} } = options;
    const wake = new Wake();
    const end = this.#notifications.listen("app_logs", (payload) => {
      if (payload === null || payload === appId) wake.nudge();
    });
    try {
      for (let after = options.after ?? (await lastAppLineId(this.#db)); !signal.aborted;) {
        const lines = await listNewAppLines(this.#db, appId, { ...filter, after, limit: followPageMax });
        if (lines.length > 0) yield lines;
        after = lines.at(-1)?.id ?? after;
        if (lines.length < followPageMax) await wake.wait(followPollMs, { clock: this.#clock, signal });
      }
    } finally {
      end();
    }
  }
}

/** Apps name the run themselves, so an invalid run id is dropped instead of failing the batch. */
function clean(line: AppLine): AppLine {
  const runId = line.runId !== null && runIdForm.test(line.runId) ? line.runId : null;
  return { ...line, runId, text: cleanLine(line.text) };
}
