// Whether the database takes writes at the moment, for `/healthz`: looked at when somebody asks, once a second at most and
// never twice at a time, whatever number of probes come.
import { sql } from "kysely";
import type { Clock } from "#lib/clock.ts";
import { within } from "#lib/within.ts";
import type { Db } from "./database.ts";

export type DatabaseHealthOptions = { readonly db: Db; readonly clock: Clock };

/** How long an answer is reused. */
const freshMs = 1000;
/** A database that takes longer counts as away; the look itself goes on, within the deadlines of every statement. */
const answerWaitMs = 3000;

/** One for the platform; nothing is to be closed. */
export class DatabaseHealth {
  readonly #options: DatabaseHealthOptions;
  #known = { isWritable: false, atMs: Number.NEGATIVE_INFINITY };
  #looking: Promise<boolean> | undefined;

  constructor(options: DatabaseHealthOptions) {
    this.#options = options;
  }

  /** False: what has to be stored, such as an async run, cannot be accepted. Never rejects; answers within seconds. */
  async isWritable(): Promise<boolean> {
    const { clock } = this.#options;
    if (clock.monotonicMs() - this.#known.atMs < freshMs) return this.#known.isWritable;
    this.#looking ??= this.#look();
    return await within(clock, answerWaitMs, this.#looking).catch(() => false);
  }

  async #look(): Promise<boolean> {
    const { db, clock } = this.#options;
    const isWritable = await takesWrites(db).catch(() => false);
    this.#known = { isWritable, atMs: clock.monotonicMs() };
    this.#looking = undefined;
    return isWritable;
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
