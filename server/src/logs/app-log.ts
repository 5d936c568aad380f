// What apps print: drivers append lines and wait until they are stored, users read pages and follow live.
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { Notifications } from "#store/notify.ts";
import {
  insertAppLines,
  lastAppLineId,
  listAppLines,
  listNewAppLines,
  type AppLine,
  type AppLineFilter,
  type StoredAppLine,
} from "./app-log-store.ts";
import { Batcher } from "./batcher.ts";
import { cleanLine } from "./clean-line.ts";
import { makePageToken, readPageToken } from "./page-token.ts";
import { Wake } from "./wake.ts";

/** A page of an app's lines; `nextToken` is null at the end. */
export type AppLogPage = { readonly lines: readonly StoredAppLine[]; readonly nextToken: string | null };

/** Lines of one statement; 7 parameters each, of which PostgreSQL takes 65 535. */
const batchMax = 1_000;
const queueMax = 10_000;
const queueWeightMax = 16_000_000;
const followPageMax = 500;
/** A notification can be lost with its connection; this is how late a follower then is. */
const followPollMs = 2_000;
const runIdForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Reads and writes lines of apps. Stop with `flush()`. */
export class AppLogs {
  readonly #db: Db;
  readonly #notifications: Notifications;
  readonly #clock: Clock;
  readonly #batcher: Batcher<AppLine>;

  constructor(options: { db: Db; notifications: Notifications; clock: Clock }) {
    this.#db = options.db;
    this.#notifications = options.notifications;
    this.#clock = options.clock;
    this.#batcher = new Batcher({
      write: (lines) => insertAppLines(this.#db, lines),
      weigh: ({ text }) => text.length,
      lingerMs: 0,
      batchMax,
      queueMax,
      queueWeightMax,
      clock: options.clock,
    });
  }

  /** Resolves when the lines are stored, in their order; rejects when the database stays away. Waits while too much waits already. */
  async append(lines: readonly AppLine[]): Promise<void> {
    if (this.#batcher.isFull) await this.#batcher.waitForRoom();
    await this.#batcher.add(lines.map(clean));
  }

  /** Resolves when all lines taken so far are stored. */
  async flush(): Promise<void> {
    await this.#batcher.flush();
  }

  /** Lines of an app by time, oldest first when forward. Throws a fault for a token that is not of this query. */
  async page(
    appId: AppId,
    wanted: AppLineFilter & {
      readonly direction: "forward" | "backward";
      readonly pageSize: number;
      readonly nextToken?: string | null;
    },
  ): Promise<AppLogPage> {
    const scope = { ...wanted, appId };
    const from = wanted.nextToken ? readPageToken(scope, wanted.nextToken) : null;
    const found = await listAppLines(this.#db, appId, { ...wanted, from, limit: wanted.pageSize + 1 });
    const lines = found.slice(0, wanted.pageSize);
    const last = lines.at(-1);
    const hasMore = found.length > lines.length && last !== undefined;
    return { lines, nextToken: hasMore ? makePageToken(scope, last) : null };
  }

  /** Pages of lines stored after the one with id `after` (absent: from now on), in the order of storing, until `signal` is aborted. */
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

/** Apps name the run themselves, so what is no run id at all is left out instead of failing the batch. */
function clean(line: AppLine): AppLine {
  const runId = line.runId !== null && runIdForm.test(line.runId) ? line.runId : null;
  return { ...line, runId, text: cleanLine(line.text) };
}
