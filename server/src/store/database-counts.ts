// What is counted of the connections to the database, for metrics: waits for one, what fails, how many there are.
import type { LogEvent, PostgresPool } from "kysely";
import { DatabaseError, type Pool } from "pg";
import { Histogram } from "#lib/histogram.ts";
import { Tally } from "#lib/tally.ts";

type Sizes = { readonly used: number; readonly idle: number; readonly waiting: number };

/** Of one pool. `openDatabase` fills it. */
export class DatabaseCounts {
  /** From asking for a connection to having it. */
  readonly waits = new Histogram();
  /** Failed statements by the class of their SQLSTATE, its first two characters; `connection`: there was none, or it broke. */
  readonly errors = new Tally<string>("connection");
  #pool: Pick<Pool, "totalCount" | "idleCount" | "waitingCount"> | undefined;

  /** Connections in use and idle, and how many ask for one. */
  get sizes(): Sizes {
    const { totalCount = 0, idleCount = 0, waitingCount = 0 } = this.#pool ?? {};
    return { used: totalCount - idleCount, idle: idleCount, waiting: waitingCount };
  }

  /** The pool as the query builder has it, with its waits counted. */
  over(pool: Pool, monotonicMs: () => number): PostgresPool {
    this.#pool = pool;
    return {
      connect: async () => {
        const askedMs = monotonicMs();
        try {
          return await pool.connect();
        } catch (error) {
          this.errors.count("connection");
          throw error;
        } finally {
          this.waits.add(monotonicMs() - askedMs);
        }
      },
      end: () => pool.end(),
      options: pool.options,
    };
  }

  /** To be handed to the query builder as its log. */
  readonly onEvent = (event: LogEvent): void => {
    if (event.level !== "error") return;
    const { error } = event;
    this.errors.count(error instanceof DatabaseError ? (error.code ?? "").slice(0, 2) : "connection");
  };
}
