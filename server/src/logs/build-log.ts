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

/** A page of a build's log. `hasMore`: later lines are already stored. */
export type BuildLogPage = {
  readonly lines: readonly store.NumberedBuildLine[];
  readonly hasMore: boolean;
};

/** How long a batch waits for further lines: enough for a burst, too short to be noticed. */
const lingerMs = 50;
/** Lines per statement. */
const batchMax = 500;
/** The maximum number of lines of one build in the queue. */
const queueMax = 20_000;
/** How long a failed write is retried: longer than a restart of the database takes. */
const retryForMs = 30_000;
/** The maximum length of all lines in the queue, in characters. */
const queueWeightMax = 16_000_000;
/** How many of the newest lines are kept when the queue is full: they say why a build failed. */
const newestMax = 200;
/** Lines per build; a build that prints without end must not fill the disk. */
const buildLinesMax = 200_000;
const followPageMax = 500;
/** How late a follower may see a line when a notification is lost with its connection. */
const followPollMs = 2_000;

/** Lines that did not fit the queue: `newest` can still be stored, `missing` counts the others. */
type LeftOut = { readonly missing: number; readonly newest: readonly store.BuildLine[] };

const noneLeftOut: LeftOut = { missing: 0, newest: [] };

/** Reads and writes lines of builds. Stop with `flush()`. */
export class BuildLogs {
  readonly #parts: Pick<Foundation, "db" | "notifications" | "clock" | "log">;
  /** A batcher for each build with unstored lines, so that builds do not wait for each other. */
  readonly #batchers = new Map<BuildId, Batcher<store.BuildLine>>();
  /** By build: the lines that were left out because the queue was full. */
  readonly #leftOut = new Map<BuildId, LeftOut>();

  constructor(parts: Pick<Foundation, "db" | "notifications" | "clock" | "log">) {
    this.#parts = parts;
  }

  /**
   * Takes lines at once, in order. Resolves when they are stored; callers that can wait should.
   * Never rejects: if the queue is full, it keeps only the newest lines for later. The build's log
   * says how many lines are missing.
   */
  async append(buildId: BuildId, lines: readonly store.BuildLine[]): Promise<void> {
    const batcher = this.#batcherOf(buildId);
    if (batcher.isFull) return this.#leaveOut(buildId, lines);
    const { missing, newest } = this.#takeLeftOut(buildId);
    const note = missing === 0 ? [] : [this.#platformLine(missingText(missing))];
    const batch = [...note, ...newest, ...lines];
    try {
      await batcher.addAll(batch.map((line) => ({ ...line, line: cleanLine(line.line) })));
    } catch (error) {
      const lost = newest.length + lines.length;
      // If there was only the note to store, the number in it is given up: the build may be gone.
      if (lost > 0) this.#leaveOut(buildId, [], missing + lost);
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
    // The queue has space again for the newest lines that did not fit before.
    for (const buildId of this.#leftOut.keys()) void this.append(buildId, []);
    await this.#flushAll();
  }

  async #flushAll(): Promise<void> {
    await Promise.all([...this.#batchers.values()].map((batcher) => batcher.flush()));
  }

  /** Lines after number `after` (0: from the start), at most `limit`. */
  async page(buildId: BuildId, options: { after: number; limit: number }): Promise<BuildLogPage> {
    const { after, limit } = options;
    const lines = await store.listBuildLines(this.#parts.db, buildId, { after, limit: limit + 1 });
    return { lines: lines.slice(0, limit), hasMore: lines.length > limit };
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
    let { after } = options;
    using wake = new Wake(this.#parts.notifications, buildId, "build_logs", "builds");
    while (!signal.aborted) {
      // This is read before the lines: a build that has ended gets no further lines.
      const hasEnded = await store.hasBuildEnded(this.#parts.db, buildId);
      const { lines, hasMore } = await this.page(buildId, { after, limit: followPageMax });
      if (lines.length > 0) yield lines;
      after = lines.at(-1)?.number ?? after;
      if (hasMore) continue;
      if (hasEnded) return;
      await wake.wait(followPollMs, { clock: this.#parts.clock, signal });
    }
  }

  #takeLeftOut(buildId: BuildId): LeftOut {
    const leftOut = this.#leftOut.get(buildId) ?? noneLeftOut;
    this.#leftOut.delete(buildId);
    return leftOut;
  }

  #platformLine(line: string): store.BuildLine {
    return { at: this.#parts.clock.now(), stage: "log", stream: "platform", line };
  }

  /** Leaves out `lines`, and keeps the newest for later. `lost` other lines were dropped before. */
  #leaveOut(buildId: BuildId, lines: readonly store.BuildLine[], lost = 0): void {
    const before = this.#leftOut.get(buildId) ?? noneLeftOut;
    const all = [...before.newest, ...lines];
    const newest = all.slice(-newestMax);
    const missing = before.missing + lost + all.length - newest.length;
    this.#leftOut.set(buildId, { missing, newest });
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
    // Takes the place of the last line that would fit.
    const lastLine = this.#platformLine(
      `The log of this build is full (${buildLinesMax} lines); later lines are not kept.`,
    );
    await store.insertBuildLines(
      this.#parts.db,
      buildId,
      lines.length < linesLeft ? lines : [...lines.slice(0, linesLeft - 1), lastLine],
    );
  }
}

function missingText(missing: number): string {
  if (missing === 1) return "1 line is missing here: it could not be stored fast enough.";
  return `${missing} lines are missing here: they could not be stored fast enough.`;
}
