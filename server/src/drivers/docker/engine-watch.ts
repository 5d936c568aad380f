// Follows the engine's events while the driver is open, and begins again whenever they break off.
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import type { Engine } from "./engine.ts";
import { followEvents, type EngineEvent } from "./engine-events.ts";
import type { EngineOutage } from "./engine-outage.ts";

type WatchParts = {
  readonly engine: Engine;
  readonly installationId: string;
  readonly outage: EngineOutage;
  readonly clock: Clock;
  readonly log: Log;
  readonly onEvent: (event: EngineEvent) => void;
  /** Called each time that following has begun: earlier changes have to be looked up. */
  readonly onBegin: () => Promise<void>;
};

/** How following is begun again after it broke off. */
const watching: RetryPolicy = {
  firstMs: 200,
  factor: 2,
  msMax: 5_000,
  jitter: 0.2,
  triesMax: untilStop,
};

/** Follows events from `start` until `close`. A driver has one. */
export class EngineWatch {
  readonly #parts: WatchParts;
  readonly #closing = new AbortController();
  #sinceMs = Number.POSITIVE_INFINITY;
  /** Settles when following has ended for good. */
  #watch: Promise<unknown> = Promise.resolve();

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /** When following began, in milliseconds since the epoch; infinite while nothing is followed. */
  get sinceMs(): number {
    return this.#sinceMs;
  }

  start(): void {
    const { outage, clock, log } = this.#parts;
    const onFailure = (error: unknown): void => {
      if (outage.now === null)
        log.warn(
          { reason: (error as Error).message },
          "the events of the Docker engine were interrupted",
        );
      void outage.look();
    };
    const { signal } = this.#closing;
    this.#watch = retry({ ...watching, clock, signal, onFailure }, () =>
      followEvents(this.#parts.engine, {
        ...this.#parts,
        signal,
        onFollowed: (sinceMs) => {
          this.#sinceMs = sinceMs;
        },
      }),
    );
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("the driver was closed"));
    await this.#watch;
  }
}
