// Whether the Docker engine answers: asks it at an interval, and at once when somebody has got no
// answer.
import type { Outage } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Engine } from "./engine.ts";

/** For the owner of an app. */
export const engineIsDown =
  "The Docker engine does not answer. The operator has to start it, or to restart it.";

/** How often `look` is to be called. */
export const lookEveryPingMs = 2_000;

type Parts = { readonly engine: Pick<Engine, "pings">; readonly clock: Clock; readonly log: Log };

/** One per driver. Says each change in the log, once. */
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

  /** Asks the engine, once at a time. Never rejects. */
  look(): Promise<void> {
    return (this.#looking ??= this.#look().finally(() => (this.#looking = null)));
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
      // A platform that stood still for a while may have missed the answer: the next look tells,
      // before anybody is refused.
      this.#outage = { sinceMs: clock.monotonicMs(), reason: engineIsDown };
      log.warn(
        { reason: (error as Error).message },
        "the Docker engine does not answer: nothing is started or built until it does",
      );
    }
  }
}
