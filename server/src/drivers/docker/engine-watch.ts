// Follows the engine's events for as long as the driver is open, and begins again whenever the
// engine ends them.
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
  /** Called each time once events are followed: what happened before has to be looked up. */
  readonly onBegin: () => Promise<void>;
};

const watching: RetryPolicy = {
  firstMs: 200,
  factor: 2,
  msMax: 5_000,
  jitter: 0.2,
  triesMax: untilStop,
};

/** One per driver. */
export class EngineWatch {
  readonly #parts: WatchParts;
  readonly #closing = new AbortController();
  #sinceMs = Number.POSITIVE_INFINITY;
  #watch: Promise<unknown> = Promise.resolve();

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /** Since when events are followed, since the epoch; infinite while they are not. */
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
        onFollowed: (sinceMs) => (this.#sinceMs = sinceMs),
      }),
    );
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("the driver was closed"));
    await this.#watch;
  }
}
