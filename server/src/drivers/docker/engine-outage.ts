// Whether the Docker engine answers, as the driver's own requests find out.
import type { Outage } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { isUnreachable } from "./engine.ts";

/** For the owner of an app. */
export const engineIsDown = "The Docker engine does not answer. The operator has to start it, or to restart it.";

type Parts = { readonly clock: Clock; readonly log: Log };

/** One per driver. Says each change in the log, once. */
export class EngineOutage {
  readonly #parts: Parts;
  #outage: Outage | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Null: the engine answers, as far as is known. */
  get now(): Outage | null {
    return this.#outage;
  }

  /** The engine has not answered a request. */
  noteSilence(error: unknown): void {
    if (this.#outage !== null) return;
    const { clock, log } = this.#parts;
    this.#outage = { sinceMs: clock.monotonicMs(), reason: engineIsDown };
    const reason = error instanceof Error ? error.message : String(error);
    log.warn({ reason }, "the Docker engine does not answer: nothing is started or built until it does");
  }

  /** Asks the engine for something that can wait until it answers. */
  async during(ask: () => Promise<void>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      this.noteSilence(error);
    }
  }

  /** The engine has answered. */
  noteAnswer(): void {
    if (this.#outage === null) return;
    const { clock, log } = this.#parts;
    const seconds = Math.round((clock.monotonicMs() - this.#outage.sinceMs) / 1000);
    this.#outage = null;
    log.info({ seconds }, "the Docker engine answers again");
  }
}
