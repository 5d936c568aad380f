// What `/healthz` says: whether the start is complete, `bootstrap.json` written and the database able to take runs.
import type { Clock } from "#lib/clock.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import { DatabaseHealth } from "#store/database-health.ts";
import type { Db } from "#store/database.ts";

/** One for the platform. */
export class Health {
  readonly #database: DatabaseHealth;
  #isServing = false;

  constructor(options: { readonly db: Db; readonly clock: Clock }) {
    this.#database = new DatabaseHealth(options);
  }

  /** Everything has started: well from now on, until the platform stops. */
  serve(lifecycle: Lifecycle): void {
    lifecycle.onClose("health", () => void (this.#isServing = false));
    this.#isServing = true;
  }

  /** Why calls and runs cannot be taken; null when they can. Never rejects; answers within seconds. */
  async refusal(): Promise<string | null> {
    if (!this.#isServing) return "The platform is starting or stopping.";
    return (await this.#database.isWritable())
      ? null
      : "The database takes no writes at the moment, so no async runs can be accepted.";
  }
}
