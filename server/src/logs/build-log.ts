// The log of builds: takes lines without waiting, numbers and stores them in batches, and serves
// pages and live followers. Only the holder of a build's lease writes; after a takeover the numbers
// continue after the stored ones.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { Batcher } from "#lib/batcher.ts";
import type { BuildId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import * as store from "./build-log-store.ts";
import { cleanLine } from "./clean-line.ts";
import { Wake } from "./wake.ts";

/** A page of a build's log; `hasMore` when lines after its last one were already stored. */
export type BuildLogPage = {
  readonly lines: readonly store.NumberedBuildLine[];
  readonly hasMore: boolean;
};

/** Long enough to gather a burst, short enough to look live. */
const lingerMs = 50;
const batchMax = 500;
const queueMax = 20_000;
/** Covers a restart of the database. */
const retryForMs = 30_000;
const queueWeightMax = 16_000_000;
/** How many of the newest lines are kept when the queue is full: they say why a build failed. */
const newestMax = 200;
/** Lines per build; a build that prints without end must not fill the disk. */
const buildLinesMax = 200_000;
const followPageMax = 500;
/** A notification can be lost with its connection; a follower is then late by up to this. */
const followPollMs = 2_000;

/** `missing`: lines before the newest that are not kept. */
type LeftOut = { readonly missing: number; readonly newest: readonly store.BuildLine[] };

/** Reads and writes lines of builds. Stop with `flush()`. */
export class BuildLogs {
  readonly #parts: Pick<Foundation, "db" | "notifications" | "clock" | "log">;
  /** One for each build with unstored lines, so that builds do not wait for each other. */
  readonly #batchers = new Map<BuildId, Batcher<store.BuildLine>>();
  /** By build: the lines that were left out because the queue was full. */
  readonly #leftOut = new Map<BuildId, LeftOut>();

  constructor(parts: Pick<Foundation, "db" | "notifications" | "clock" | "log">) {
    this.#parts = parts;
  }

  /**
   * Takes lines at once, in order. Resolves when they are stored; callers that can wait should.
   * Never rejects: lines that do not fit the queue, or cannot be stored, are dropped, and the log
   * says how many.
   */
  async append(buildId: BuildId, lines: readonly store.BuildLine[]): Promise<void> {
    const batcher = this.#batcherOf(buildId);
    if (batcher.isFull) return this.#leaveOut(buildId, lines);
    const given = [...this.#takeLeftOut(buildId), ...lines];
    try {
      await batcher.addAll(given.map((line) => ({ ...line, line: cleanLine(line.line) })));
    } catch (error) {
      this.#leaveOut(buildId, [], given.length);
      this.#parts.log.error(
        { err: error, buildId, lines: lines.length },
        "lines of a build could not be stored",
      );
    }
  }

  /**
   * Resolves when all lines taken so far are stored. Call it before writing a build's end, so that
   * followers get every line.
   */
  async flush(): Promise<void> {
    await this.#flushAll();
    for (const [buildId, { newest }] of this.#leftOut)
      if (newest.length > 0) void this.append(buildId, []);
    await this.#flushAll();
  }

  async #flushAll(): Promise<void> {
    await Promise.all([...this.#batchers.values()].map((batcher) => batcher.flush()));
  }

  /** Lines after number `after` (0: from the start), at most `limit`. */
  async page(buildId: BuildId, options: { after: number; limit: number }): Promise<BuildLogPage> {
    const { after, limit } = options;
    const found = await store.listBuildLines(this.#parts.db, buildId, { after, limit: limit + 1 });
    return { lines: found.slice(0, limit), hasMore: found.length > limit };
  }

  /**
   * Pages of lines after number `after`, each as soon as it is stored; ends after the last line of
   * an ended build, or when `signal` is aborted.
   */
  async *follow(
    buildId: BuildId,
    options: { after: number; signal: AbortSignal },
  ): AsyncGenerator<readonly store.NumberedBuildLine[], void, undefined> {
    const { signal } = options;
    using wake = new Wake(this.#parts.notifications, buildId, "build_logs", "builds");
    for (let { after } = options; !signal.aborted;) {
      // Asked before the lines are read: a build that had ended by then gets no more.
      const hasEnded = await store.hasBuildEnded(this.#parts.db, buildId);
      const { lines, hasMore } = await this.page(buildId, { after, limit: followPageMax });
      if (lines.length > 0) yield lines;
      after = lines.at(-1)?.number ?? after;
      if (hasMore) continue;
      if (hasEnded) return;
      await wake.wait(followPollMs, { clock: this.#parts.clock, signal });
    }
  }

  /** The newest of the lines that were left out, after a line that says how many are missing. */
  #takeLeftOut(buildId: BuildId): store.BuildLine[] {
    const { missing = 0, newest = [] } = this.#leftOut.get(buildId) ?? {};
    this.#leftOut.delete(buildId);
    if (missing === 0) return [...newest];
    const text = `${missing} lines are missing here: they could not be stored fast enough.`;
    return [this.#platformLine(text), ...newest];
  }

  #platformLine(line: string): store.BuildLine {
    return { at: this.#parts.clock.now(), stage: "log", stream: "platform", line };
  }

  #leaveOut(buildId: BuildId, lines: readonly store.BuildLine[], lost = 0): void {
    const { missing, newest } = this.#leftOut.get(buildId) ?? { missing: 0, newest: [] };
    const all = [...newest, ...lines];
    const kept = all.slice(-newestMax);
    const count = missing + lost + all.length - kept.length;
    this.#leftOut.set(buildId, { missing: count, newest: kept });
  }

  #batcherOf(buildId: BuildId): Batcher<store.BuildLine> {
    return getOrInsert(this.#batchers, buildId, () => {
      return new Batcher<store.BuildLine>({
        write: (lines) => this.#write(buildId, lines),
        weigh: ({ line }) => line.length,
        lingerMs,
        batchMax,
        queueMax,
        queueWeightMax,
        retryForMs,
        onIdle: () => this.#batchers.delete(buildId),
        clock: this.#parts.clock,
      });
    });
  }

  async #write(buildId: BuildId, lines: readonly store.BuildLine[]): Promise<void> {
    const linesLeft = buildLinesMax - (await store.lastLineNumber(this.#parts.db, buildId));
    if (linesLeft <= 0) return;
    const full = this.#platformLine(
      `The log of this build is full (${buildLinesMax} lines); later lines are not kept.`,
    );
    await store.insertBuildLines(
      this.#parts.db,
      buildId,
      lines.length < linesLeft ? lines : [...lines.slice(0, linesLeft - 1), full],
    );
  }
}
