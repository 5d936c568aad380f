// Registers the parts of the platform as they are opened. When all are open, `start()` begins those
// that work by themselves, such as loops. `close()` closes all parts in reverse order, each within
// a deadline, so that one call stops the platform and leaves nothing behind.
import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

type Part = {
  readonly name: string;
  readonly close: () => Promise<void> | void;
  readonly waitMs: number;
};

/** How long one part may take to close, unless it sets its own limit. */
const closeWaitMs = 30_000;

/** The ordered list of a platform's open parts. */
export class Lifecycle {
  readonly #begins: (() => Promise<void> | void)[] = [];
  readonly #parts: Part[] = [];
  readonly #log: Log;
  readonly #clock: Clock;
  #closing: Promise<void> | undefined;

  constructor(options: { log: Log; clock: Clock }) {
    this.#log = options.log;
    this.#clock = options.clock;
  }

  /** Registers work that begins once everything is open, such as a loop. */
  onStart(begin: () => Promise<void> | void): void {
    this.#begins.push(begin);
  }

  /** Begins all registered work, in the order in which it was registered. Call it once. */
  async start(): Promise<void> {
    for (const begin of this.#begins) await begin();
  }

  /** Registers an open part; the last registered is closed first. */
  onClose(
    name: string,
    close: () => Promise<void> | void,
    options: { waitMs?: number } = {},
  ): void {
    this.#parts.push({ name, close, waitMs: options.waitMs ?? closeWaitMs });
  }

  /** Registers an open part that is closed after all others registered so far. */
  onCloseLast(name: string, close: () => Promise<void> | void): void {
    this.#parts.unshift({ name, close, waitMs: closeWaitMs });
  }

  /**
   * Closes all parts in reverse order. A second call waits for the first. Rejects when a part fails
   * to close.
   */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (;;) {
      const part = this.#parts.pop();
      if (part === undefined) break;
      this.#log.debug({ part: part.name }, "closing");
      try {
        await this.#closeOne(part);
      } catch (error) {
        failures.push(new Error(`could not close ${part.name}`, { cause: error }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, "some parts did not close");
  }

  async #closeOne(part: Part): Promise<void> {
    const done = new AbortController();
    const late = this.#clock.sleep(part.waitMs, done.signal).then(
      () => Promise.reject(new Error(`${part.name} did not close within ${part.waitMs} ms`)),
      // The sleep rejects when the part has closed in time.
      () => undefined,
    );
    try {
      await Promise.race([Promise.resolve(part.close()), late]);
    } finally {
      done.abort();
    }
  }
}
