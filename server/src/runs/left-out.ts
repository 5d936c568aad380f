// Counts the plain calls that are not recorded, by app, and has the counts written some seconds later, so that
// readers of the records see how many are missing. A count is written once, also when a write has to be repeated.
import { randomUUID } from "node:crypto";
import type { Clock } from "#lib/clock.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";

/** So many calls of an app that were not recorded. */
export type LeftOutCalls = {
  /** A row that is there already is not written again. */
  readonly id: string;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly calls: number;
  /** When the latest of them came; milliseconds since the epoch. */
  readonly latestAt: number;
};

export type LeftOutOptions = {
  readonly writeLeftOut: (rows: readonly LeftOutCalls[]) => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
};

type Call = { readonly projectId: ProjectId; readonly appId: AppId; readonly receivedAt: number };

/** Counts wait for each other so long: a row for each app at a time. */
const gatherMs = 5_000;

/** One for the platform. Stop with `flush()`. */
export class LeftOut {
  readonly #options: LeftOutOptions;
  /** One entry for each app that there is. */
  readonly #counts = new Map<AppId, { projectId: ProjectId; calls: number; latestAt: number }>();
  #unwritten: readonly LeftOutCalls[] = [];
  #writing: Promise<void> | undefined;
  #cancelWrite: (() => void) | undefined;

  constructor(options: LeftOutOptions) {
    this.#options = options;
  }

  add({ projectId, appId, receivedAt }: Call): void {
    const known = this.#counts.get(appId);
    if (known === undefined) this.#counts.set(appId, { projectId, calls: 1, latestAt: receivedAt });
    else {
      known.calls += 1;
      known.latestAt = Math.max(known.latestAt, receivedAt);
    }
    this.#schedule();
  }

  /** Resolves when all counts are written, or one write failed. Never rejects. */
  async flush(): Promise<void> {
    await this.#writing;
    do await this.#write();
    while (this.#counts.size > 0 && this.#unwritten.length === 0);
    this.#cancelWrite?.();
    this.#cancelWrite = undefined;
  }

  #schedule(): void {
    this.#cancelWrite ??= this.#options.clock.after(gatherMs, () => {
      this.#cancelWrite = undefined;
      this.#writing ??= this.#write().finally(() => (this.#writing = undefined));
    });
  }

  async #write(): Promise<void> {
    const { writeLeftOut, log } = this.#options;
    if (this.#unwritten.length === 0) this.#unwritten = this.#taken();
    if (this.#unwritten.length === 0) return;
    try {
      await writeLeftOut(this.#unwritten);
      this.#unwritten = [];
      if (this.#counts.size > 0) this.#schedule();
    } catch (error) {
      log.warn({ err: error }, "the number of calls that were not recorded could not be written");
      this.#schedule();
    }
  }

  #taken(): LeftOutCalls[] {
    const taken = [...this.#counts].map(([appId, count]) => ({ id: randomUUID(), appId, ...count }));
    this.#counts.clear();
    const leftOut = taken.reduce((sum, { calls }) => sum + calls, 0);
    if (leftOut > 0) this.#options.log.warn({ leftOut }, "calls were not recorded, as there were too many");
    return taken;
  }
}
