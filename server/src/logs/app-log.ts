// The output of apps: drivers append lines and wait until these are stored, and users read them in
// pages or follow them live.
import { Batcher } from "#lib/batcher.ts";
import type { AppId, ReplicaId, RunId } from "#lib/ids.ts";
import { pageOf, PageTokens, type Page } from "#lib/page-token.ts";
import type { Foundation } from "#store/foundation.ts";
import * as store from "./app-log-store.ts";
import { cleanLine } from "./clean-line.ts";
import { LineRate, type LineRateLimits } from "./line-rate.ts";
import { Wake } from "./wake.ts";

/** Lines per statement. Few, since the lines of other apps wait until a statement has ended. */
const batchMax = 2_000;
/** Characters per statement, which take up memory of PostgreSQL. */
const batchWeightMax = 4_000_000;
/** With this many lines in the queue, an app that already has lines there must wait. */
const queueMax = 50_000;
/** How long a failed write is retried: long enough for a restart of the database. */
const retryForMs = 30_000;
/** Like `queueMax`, but in characters. */
const queueWeightMax = 16_000_000;
/** Lines of one app in a statement, so that apps that print much at the same time take turns. */
const turnMax = 500;
/** Enough for a burst of output, up to as many characters as a driver keeps of unread output. */
const burstLimits: LineRateLimits = {
  linesAtOnce: 250_000,
  linesPerSecond: 5_000,
  charactersAtOnce: 64_000_000,
  charactersPerSecond: 4_000_000,
};
/** Enough for a busy app's steady output; even if it never stops, the disk lasts for weeks. */
const lastingLimits: LineRateLimits = {
  linesAtOnce: 5_000_000,
  linesPerSecond: 500,
  charactersAtOnce: 1_000_000_000,
  charactersPerSecond: 100_000,
};
/** How many of each stream's last lines a run gets when its replica crashes: a traceback fits. */
const lastLinesMax = 50;
/** How long lines wait at most when the app has exceeded its limits. */
const waitMsMax = 2_000;
/**
 * How much of each append is stored even if the app is over its limits: enough for the end of a
 * traceback, and at least one line.
 */
const keptLinesMax = 20;
const keptCharactersMax = 16_384;
const followPageMax = 500;
/** How late a follower may be when a notification was lost with its connection. */
const followPollMs = 2_000;
const pageTokens = new PageTokens<store.AppLineCursor>({
  list: null,
  cursor: { at: "number", id: "number" },
  next: "nextPageToken",
});
const runIdForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

type AppLogsParts = Pick<Foundation, "db" | "notifications" | "clock">;

/** Reads and writes lines of apps. Stop with `flush()`. */
export class AppLogs {
  readonly #parts: AppLogsParts;
  readonly #batcher: Batcher<store.AppLine>;
  readonly #rates: readonly LineRate[];
  readonly #stopping = new AbortController();

  constructor(parts: AppLogsParts & { readonly limits?: readonly LineRateLimits[] }) {
    this.#parts = parts;
    const { limits = [burstLimits, lastingLimits], clock } = parts;
    this.#rates = limits.map((each) => new LineRate({ limits: each, clock }));
    this.#batcher = new Batcher({
      write: (lines) => store.insertAppLines(this.#parts.db, lines),
      weigh: ({ text }) => text.length,
      keyOf: ({ appId }) => appId,
      batchMax,
      batchWeightMax,
      turnMax,
      queueMax,
      queueWeightMax,
      retryForMs,
      clock,
    });
  }

  /**
   * Resolves when the lines of one app are stored, in order; rejects when the database stays
   * unreachable. Waits while the queue is full and has lines of the app, and for a moment when the
   * app exceeds its limits. If it still exceeds them, stores only the last lines and a note.
   */
  async append(lines: readonly store.AppLine[]): Promise<void> {
    const storable = await this.#withinLimits(lines.map(clean));
    await this.#batcher.addWhenNotFull(storable);
  }

  /**
   * Assigns to these runs the last lines that the replica printed at `since` or later, leaving out
   * lines that belong to a run.
   */
  async assignLast(
    replicaId: ReplicaId,
    ended: { readonly since: number; readonly runIds: readonly RunId[] },
  ): Promise<void> {
    await store.assignLastLines(this.#parts.db, replicaId, { ...ended, limit: lastLinesMax });
  }

  /**
   * Resolves when all lines that were appended so far are stored. Ends the waits of apps that
   * exceed their limits. For the end of the platform.
   */
  async flush(): Promise<void> {
    this.#stopping.abort(new Error("the logs are flushed"));
    await this.#batcher.flush();
  }

  /** The lines to store: all, or the last ones with a note if the app exceeds its limits. */
  async #withinLimits(lines: readonly store.AppLine[]): Promise<readonly store.AppLine[]> {
    const [first] = lines;
    if (first === undefined) return lines;
    const { appId } = first;
    const characters = charactersOf(lines);
    const waits = this.#rates.map((rate) => rate.waitMs(appId, lines.length, characters));
    const waitMs = Math.max(...waits);
    const kept = waitMs > waitMsMax ? lastOf(lines) : lines;
    for (const rate of this.#rates) rate.take(appId, kept.length, charactersOf(kept));
    // An abort ends the pause early, as intended.
    if (waitMs > 0)
      await this.#parts.clock
        .sleep(Math.min(waitMs, waitMsMax), this.#stopping.signal)
        .catch(() => undefined);
    if (kept.length === lines.length) return kept;
    const leftOut = lines.length - kept.length;
    const what = leftOut === 1 ? "1 line was" : `${leftOut} lines were`;
    const text = `[slipway] ${what} left out here: the app prints more than its log may take.`;
    return [{ ...first, runId: null, text }, ...kept];
  }

  /**
   * A page of an app's lines, ordered by time, the oldest first if `direction` is forward. Throws a
   * `Fault` for a token of another query.
   */
  async page(
    appId: AppId,
    query: store.AppLineFilter & {
      readonly direction: "forward" | "backward";
      readonly pageSize: number;
      readonly nextToken?: string | null;
    },
  ): Promise<Page<store.StoredAppLine>> {
    const { direction, container, afterDate, beforeDate, search, stream, runId } = query;
    const tokenKey = [appId, direction, container, afterDate, beforeDate, search, stream, runId];
    const from = pageTokens.read(tokenKey, query.nextToken ?? null);
    // One more line shows whether there is another page.
    const limit = query.pageSize + 1;
    const lines = await store.listAppLines(this.#parts.db, appId, { ...query, from, limit });
    return pageOf(lines, query.pageSize, (last) => pageTokens.make(tokenKey, last));
  }

  /** The id of the last stored line of any app. */
  async lastId(): Promise<number> {
    return await store.lastAppLineId(this.#parts.db);
  }

  /**
   * Yields pages of lines that were stored after the line with the id `after`, in storage order,
   * until `signal` is aborted. Yields an empty page when no line was stored for a while.
   */
  async *follow(
    appId: AppId,
    options: { after: number; filter?: store.AppLineFilter; signal: AbortSignal },
  ): AsyncGenerator<readonly store.StoredAppLine[], void, undefined> {
    const { signal, filter = {} } = options;
    using wake = new Wake(this.#parts.notifications, appId, "app_logs");
    let { after } = options;
    while (!signal.aborted) {
      const lines = await store.listNewAppLines(this.#parts.db, appId, {
        ...filter,
        after,
        limit: followPageMax,
      });
      yield lines;
      after = lines.at(-1)?.id ?? after;
      if (lines.length < followPageMax)
        await wake.wait(followPollMs, { clock: this.#parts.clock, signal });
    }
  }
}

/** Drops an invalid run id, which comes from the app and would make the whole batch fail. */
function clean(line: store.AppLine): store.AppLine {
  const runId = line.runId !== null && runIdForm.test(line.runId) ? line.runId : null;
  return { ...line, runId, text: cleanLine(line.text) };
}

/** The last lines, as many as are stored even if the app exceeds its limits. */
function lastOf(lines: readonly store.AppLine[]): readonly store.AppLine[] {
  let last = lines.slice(-keptLinesMax);
  while (last.length > 1 && charactersOf(last) > keptCharactersMax) last = last.slice(1);
  return last;
}

function charactersOf(lines: readonly store.AppLine[]): number {
  return lines.reduce((sum, { text }) => sum + text.length, 0);
}
