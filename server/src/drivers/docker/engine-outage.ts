// Finds out whether the Docker engine answers: asks at an interval, and at once after a request
// without an answer.
import type { Outage } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Engine } from "./engine.ts";

/** A sentence for the owner of an app. */
export const engineIsDown =
  "The Docker engine does not answer. The operator has to start it, or to restart it.";

/** How often `look` is to be called. */
export const lookEveryPingMs = 2_000;

type Parts = { readonly engine: Pick<Engine, "pings">; readonly clock: Clock; readonly log: Log };

/** Knows whether the engine answers, and logs each change once. A driver has one. */
export class EngineOutage {
  readonly #parts: Parts;
  #outage: Outage | null = null;
  #looking: Promise<void> | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Null: the engine answers, as far as is known. */
  get now(): Outage | null {
    return this.#outage;
  }

  /** Asks the engine; calls at the same time share one question. Never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #look(): Promise<void> {
    const { engine, clock, log } = this.#parts;
    const error: unknown = await engine.pings.ping().then(
      () => null,
      (reason: unknown) => reason,
    );
    if (error === null && this.#outage !== null) {
      const seconds = Math.round((clock.monotonicMs() - this.#outage.sinceMs) / 1000);
      this.#outage = null;
      log.info({ seconds }, "the Docker engine answers again");
    } else if (error !== null && this.#outage === null) {
      // A platform that stood still for a while may have missed the answer. In that case, the next
      // look ends the outage before anybody is refused.
      this.#outage = { sinceMs: clock.monotonicMs(), reason: engineIsDown };
      log.warn(
        { reason: (error as Error).message },
        "the Docker engine does not answer: nothing is started or built until it does",
      );
    }
  }
}
