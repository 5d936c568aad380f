// Runs a turn at an interval, and at once when nudged. A turn takes no input, reads everything,
// does bounded work and can be repeated safely. Turns of one loop never overlap.
import type { Clock } from "./clock.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { Log } from "./log.ts";

export type LoopOptions = {
  readonly name: string;
  /** One turn. A rejection is logged, and the loop continues at the next interval. */
  readonly turn: (signal: AbortSignal) => Promise<void>;
  /** Calls `nudge` when there may be something to do, until the returned function is called. */
  readonly listen?: (nudge: () => void) => () => void;
  /** The longest time between two turns. */
  readonly intervalMs: number;
  /**
   * Skips turns while the clock may be far off; for turns that make permanent changes based on the
   * time.
   */
  readonly waitsForClock?: boolean;
  readonly log: Log;
  readonly clock: Clock;
};

/**
 * A loop runs from `start()` to the end of `stop()`, which waits for the running turn.
 * `startWithin` ties both to the platform.
 */
export class Loop {
  readonly #options: LoopOptions;
  readonly #clock: Clock;
  readonly #abort = new AbortController();
  /** Ends the wait for the next turn; undefined: a turn is running. */
  #wake: (() => void) | undefined;
  /** Whether there was a nudge since the latest turn began. */
  #nudged = false;
  /** Resolves when the loop has stopped; undefined: it has not been started. */
  #running: Promise<void> | undefined;
  #unlisten: (() => void) | undefined;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#clock = options.clock;
  }

  start(): void {
    this.#unlisten ??= this.#options.listen?.(() => this.nudge());
    this.#running ??= this.#run();
  }

  /** Makes the loop start and stop with the platform. */
  startWithin(lifecycle: Lifecycle): void {
    lifecycle.onStart(() => this.start());
    lifecycle.onClose(this.#options.name, () => this.stop());
  }

  /** Starts a turn now. Any number of nudges during a turn cause one more turn. */
  nudge(): void {
    this.#nudged = true;
    this.#wake?.();
  }

  async stop(): Promise<void> {
    this.#unlisten?.();
    this.#abort.abort(new Error(`loop ${this.#options.name} stopped`));
    this.#wake?.();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      this.#nudged = false;
      try {
        if (this.#options.waitsForClock !== true || this.#clock.isSettled())
          await this.#options.turn(signal);
      } catch (error) {
        if (!signal.aborted)
          this.#options.log.error({ err: error, loop: this.#options.name }, "loop turn failed");
      }
      if (!signal.aborted && !this.#nudged) await this.#wait();
    }
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(this.#options.intervalMs, () => this.#wake?.());
      this.#wake = () => {
        this.#wake = undefined;
        cancel();
        resolve();
      };
    });
  }
}
