// The output of apps: drivers append lines and wait until they are stored, users read pages and
// follow live.
import { Batcher } from "#lib/batcher.ts";
import type { AppId, ReplicaId, RunId } from "#lib/ids.ts";
import { pageOf, PageTokens, type Page } from "#lib/page-token.ts";
import type { Foundation } from "#store/foundation.ts";
import * as store from "./app-log-store.ts";
import { cleanLine } from "./clean-line.ts";
import { LineRate, type LineRateLimits } from "./line-rate.ts";
import { Wake } from "./wake.ts";

/** Lines per statement: the lines of other apps wait for one to end. */
const batchMax = 2_000;
/** Characters per statement: some of PostgreSQL's memory. */
const batchWeightMax = 4_000_000;
const queueMax = 50_000;
/** Covers a restart of the database. */
const retryForMs = 30_000;
const queueWeightMax = 16_000_000;
/** Lines of an app in its turn: apps that print much at the same time share each statement. */
const turnMax = 500;
/**
 * Covers an app's burst of output; the characters at once are what a driver keeps of unread output.
 */
const burstLimits: LineRateLimits = {
  linesAtOnce: 250_000,
  linesPerSecond: 5_000,
  charactersAtOnce: 64_000_000,
  charactersPerSecond: 4_000_000,
};
/**
 * Covers the steady output of a busy app; an app that never stops fills the disk in weeks, not in
 * hours.
 */
const lastingLimits: LineRateLimits = {
  linesAtOnce: 5_000_000,
  linesPerSecond: 500,
  charactersAtOnce: 1_000_000_000,
  charactersPerSecond: 100_000,
};
/** Lines of each stream that belong to every run which a crash took down: a traceback. */
const lastLinesMax = 50;
/** How long lines wait for the app's budget. */
const waitMsMax = 2_000;
/**
 * What is stored even of an app over its budget, for each append: the end of a traceback, and at
 * least one line.
 */
const keptLinesMax = 20;
const keptCharactersMax = 16_384;
const followPageMax = 500;
/** A notification can be lost with its connection; a follower is then late by up to this. */
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
  readonly #paces: readonly LineRate[];
  readonly #stopping = new AbortController();

  constructor(parts: AppLogsParts & { readonly limits?: readonly LineRateLimits[] }) {
    this.#parts = parts;
    const { limits = [burstLimits, lastingLimits], clock } = parts;
    this.#paces = limits.map((one) => new LineRate({ limits: one, clock }));
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
   * Resolves when lines of one app are stored, in order; rejects when the database stays
   * unreachable. Waits while the queue is full and has lines of the app, and a moment when the app
   * exceeds its budget. When that does not suffice, stores only the last lines and says so.
   */
  async append(lines: readonly store.AppLine[]): Promise<void> {
    const kept = await this.#withinBudget(lines.map(clean));
    await this.#batcher.addWhenRoom(kept);
  }

  /**
   * The replica's last stored lines that belong to no run, from `since` on, belong to these runs
   * too.
   */
  async assignLast(
    replicaId: ReplicaId,
    ended: { readonly since: number; readonly runIds: readonly RunId[] },
  ): Promise<void> {
    await store.assignLastLines(this.#parts.db, replicaId, { ...ended, limit: lastLinesMax });
  }

  /**
   * Resolves when all lines taken so far are stored; ends all waits for the rate. For the end of
   * the platform.
   */
  async flush(): Promise<void> {
    this.#stopping.abort(new Error("the logs are flushed"));
    await this.#batcher.flush();
  }

  async #withinBudget(lines: readonly store.AppLine[]): Promise<readonly store.AppLine[]> {
    const [first] = lines;
    if (first === undefined) return lines;
    const { appId } = first;
    const waitMs = Math.max(
      ...this.#paces.map((pace) => pace.waitMs(appId, lines.length, charactersOf(lines))),
    );
    const kept = waitMs > waitMsMax ? lastOf(lines) : lines;
    for (const pace of this.#paces) pace.take(appId, kept.length, charactersOf(kept));
    // An abort ends the pause early, as intended.
    if (waitMs > 0)
      await this.#parts.clock
        .sleep(Math.min(waitMs, waitMsMax), this.#stopping.signal)
        .catch(() => undefined);
    if (kept.length === lines.length) return kept;
    const text = `[slipway] ${lines.length - kept.length} lines were left out here: the app prints more than its log may take.`;
    return [{ ...first, runId: null, text }, ...kept];
  }

  /**
   * Lines of an app by time, oldest first when forward. Throws a fault for a token of another
   * query.
   */
  async page(
    appId: AppId,
    wanted: store.AppLineFilter & {
      readonly direction: "forward" | "backward";
      readonly pageSize: number;
      readonly nextToken?: string | null;
    },
  ): Promise<Page<store.StoredAppLine>> {
    const { direction, container, afterDate, beforeDate, search, stream, runId } = wanted;
    const query = [appId, direction, container, afterDate, beforeDate, search, stream, runId];
    const from = pageTokens.read(query, wanted.nextToken ?? null);
    const found = await store.listAppLines(this.#parts.db, appId, {
      ...wanted,
      from,
      limit: wanted.pageSize + 1,
    });
    return pageOf(found, wanted.pageSize, (last) => pageTokens.make(query, last));
  }

  /** The id of the last stored line of any app. */
  async lastId(): Promise<number> {
    return await store.lastAppLineId(this.#parts.db);
  }

  /**
   * Pages of lines stored after the one with id `after`, in storage order, until `signal` is
   * aborted; an empty one when nothing came for a while.
   */
  async *follow(
    appId: AppId,
    options: { after: number; filter?: store.AppLineFilter; signal: AbortSignal },
  ): AsyncGenerator<readonly store.StoredAppLine[], void, undefined> {
    const { signal, filter = {} } = options;
    using wake = new Wake(this.#parts.notifications, appId, "app_logs");
    for (let { after } = options; !signal.aborted;) {
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

/** Apps name the run themselves, so an invalid run id is dropped instead of failing the batch. */
function clean(line: store.AppLine): store.AppLine {
  const runId = line.runId !== null && runIdForm.test(line.runId) ? line.runId : null;
  return { ...line, runId, text: cleanLine(line.text) };
}

function lastOf(lines: readonly store.AppLine[]): readonly store.AppLine[] {
  let kept = lines.slice(-keptLinesMax);
  while (kept.length > 1 && charactersOf(kept) > keptCharactersMax) kept = kept.slice(1);
  return kept;
}

function charactersOf(lines: readonly store.AppLine[]): number {
  return lines.reduce((sum, { text }) => sum + text.length, 0);
}
