// The answers of `/healthz` and `/readyz`. Alive: the start is complete, `bootstrap.json` is
// written, and the platform is not stopping. Ready: it also accepts async runs. A restart fixes
// neither a missing database nor a full disk, so those only make the platform unready. A probe
// triggers the database check, which runs at most once a second and never concurrently, regardless
// of the number of probes.
import { CachedAnswer } from "#lib/cached-answer.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Foundation } from "#store/foundation.ts";
import { takesWrites } from "#store/health-store.ts";

export type HealthOptions = Pick<Foundation, "db" | "clock"> & {
  /**
   * Returns why nothing new can be stored; null when there is disk space, or when the database is
   * on another machine.
   */
  readonly storeRefusal: () => string | null;
};

/** How long an answer is cached. */
const freshMs = 1000;
/**
 * A slower database counts as unavailable; the check itself continues, within the deadline of each
 * statement.
 */
const answerWaitMs = 3000;

/** Answers the probes. A platform has one of these; it needs no closing. */
export class Health {
  readonly #options: HealthOptions;
  #isServing = false;
  readonly #writes: CachedAnswer<boolean>;

  constructor(options: HealthOptions) {
    this.#options = options;
    const { db, clock } = options;
    const look = (): Promise<boolean> => takesWrites(db).catch(() => false);
    this.#writes = new CachedAnswer({ look, freshMs, waitMs: answerWaitMs, clock });
  }

  /**
   * Startup is complete: the platform is alive from now on, until it begins to close. If `canWait`
   * returns true then, it stays alive, because connections still come in, or wait for the next
   * platform.
   */
  serve(lifecycle: Lifecycle, canWait: () => boolean): void {
    lifecycle.onClose("health", () => {
      this.#isServing = canWait();
    });
    this.#isServing = true;
  }

  /** Why the platform does not serve; null: it does. */
  notServing(): string | null {
    return this.#isServing ? null : "The platform is starting or stopping.";
  }

  /**
   * Why calls and runs cannot be accepted; null: they can. Never rejects; answers within seconds.
   */
  async notReady(): Promise<string | null> {
    const reason = this.notServing() ?? this.#options.storeRefusal();
    if (reason !== null) return reason;
    return (await this.#writes.get()) === true
      ? null
      : "The database does not accept writes at the moment, so no async runs can be accepted.";
  }
}
