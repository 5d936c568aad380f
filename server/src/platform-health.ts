// What `/healthz` and `/readyz` say. Alive: the start is complete, `bootstrap.json` written, and the platform does not stop.
// Ready: async runs can be accepted too. A restart brings back neither a database that is away nor room on a disk, so
// that these make the platform unready only. The database is looked at when somebody asks, once a second at most and never
// twice at a time, whatever number of probes come.
import { sql } from "kysely";
import type { Clock } from "#lib/clock.ts";
import { CachedAnswer } from "#lib/cached-answer.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Db } from "#store/database.ts";

export type HealthOptions = {
  readonly db: Db;
  readonly clock: Clock;
  /** Why nothing new is stored for want of room; null: there is room, or it is not this machine's to say. */
  readonly storeRefusal: () => string | null;
};

/** How long an answer is reused. */
const freshMs = 1000;
/** A database that takes longer counts as away; the look itself goes on, within the deadlines of every statement. */
const answerWaitMs = 3000;

/** One for the platform; nothing is to be closed. */
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

  /** Everything has started: alive from now on, until the platform stops. */
  serve(lifecycle: Lifecycle): void {
    lifecycle.onClose("health", () => void (this.#isServing = false));
    this.#isServing = true;
  }

  /** Why the platform does not serve; null: it does. */
  notServing(): string | null {
    return this.#isServing ? null : "The platform is starting or stopping.";
  }

  /** Why calls and runs cannot be taken; null: they can. Never rejects; answers within seconds. */
  async notReady(): Promise<string | null> {
    const known = this.notServing() ?? this.#options.storeRefusal();
    if (known !== null) return known;
    return (await this.#writes.get()) === true
      ? null
      : "The database does not accept writes at the moment, so no async runs can be accepted.";
  }
}

/** Writes some bytes to the write-ahead log and commits them, so that a full or read-only disk is found too; nothing is kept. */
async function takesWrites(db: Db): Promise<boolean> {
  const { rows } = await sql<{ setting: string }>`
    select current_setting('transaction_read_only') as setting, pg_logical_emit_message(true, 'slipway', 'health')`.execute(
    db,
  );
  return rows[0]?.setting === "off";
}
