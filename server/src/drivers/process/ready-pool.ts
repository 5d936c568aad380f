// Things that take a while to make, kept ready for the next starts of replicas. Some are made in
// advance after each start, as many as were taken lately.
import type { DriverParts } from "#drivers/opened-driver.ts";

export type ReadyPoolParts<Item> = Pick<DriverParts, "clock" | "log"> & {
  /** Makes one; null: it is outdated already. */
  readonly make: () => Promise<Item | null>;
  /** Whether an item that is ready can still be used. */
  readonly isUsable: (item: Item) => boolean;
  /** Ends an item that is not used. */
  readonly end: (item: Item) => Promise<void>;
  /** The text of the log when one cannot be made. */
  readonly failureText: string;
};

/**
 * As many are prepared as were taken lately, within these bounds. When more replicas start at once
 * than there are items, each of the others makes its own.
 */
const readyMin = 2;
const readyMax = 10;
/** How long to wait after a start: preparing would compete with the app that starts. */
const refillPauseMs = 1000;

/** Prepares items only after the first `take`, so that a platform without apps has none. */
export class ReadyPool<Item> {
  readonly #parts: ReadyPoolParts<Item>;
  #ready: Item[] = [];
  /** How many were asked for since the last refill began. */
  #takenCount = 0;
  #isClosed = false;
  #refilling: Promise<void> | null = null;
  #cancelRefill: (() => void) | undefined;

  constructor(parts: ReadyPoolParts<Item>) {
    this.#parts = parts;
  }

  /** True when none is ready. */
  get isEmpty(): boolean {
    return this.#ready.length === 0;
  }

  /** An item that is ready, or null; then the caller makes its own. */
  take(): Item | null {
    const { clock, isUsable, end } = this.#parts;
    this.#takenCount++;
    this.#cancelRefill?.();
    this.#cancelRefill = clock.after(refillPauseMs, () => {
      this.#refilling ??= this.#refill().finally(() => {
        this.#refilling = null;
      });
    });
    for (;;) {
      const item = this.#ready.shift();
      if (item === undefined) return null;
      if (isUsable(item)) return item;
      void end(item);
    }
  }

  /** Ends the items that are ready. */
  drop(): void {
    for (const item of this.#ready.splice(0)) void this.#parts.end(item);
  }

  /** Ends the items that are ready, and makes no others. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRefill?.();
    await this.#refilling;
    await Promise.all(this.#ready.splice(0).map((item) => this.#parts.end(item)));
  }

  async #refill(): Promise<void> {
    const { make, log, failureText } = this.#parts;
    const wantedCount = Math.min(Math.max(this.#takenCount, readyMin), readyMax);
    this.#takenCount = 0;
    try {
      while (this.#ready.length < wantedCount && !this.#isClosed) {
        const item = await make();
        if (item !== null) this.#ready.push(item);
      }
    } catch (error) {
      log.warn({ err: error }, failureText);
    }
  }
}
