// Counts for metrics: connections to the database, waits for a connection, and failed statements.
import type { LogEvent, PostgresPool } from "kysely";
import { DatabaseError, type Pool } from "pg";
import { Histogram } from "#lib/histogram.ts";
import { Tally } from "#lib/tally.ts";

type Sizes = { readonly used: number; readonly idle: number; readonly waiting: number };

/** The counts of one pool. `openDatabase` fills them. */
export class DatabaseCounts {
  /** The time from asking for a connection to getting it. */
  readonly waits = new Histogram();
  /**
   * Failed statements by SQLSTATE class (its first two characters); `connection`: there was no
   * connection, or it broke.
   */
  readonly errors = new Tally<string>("connection");
  #pool: Pick<Pool, "totalCount" | "idleCount" | "waitingCount"> | undefined;

  /** Connections in use and idle, and how many callers wait for one. */
  get sizes(): Sizes {
    const { totalCount = 0, idleCount = 0, waitingCount = 0 } = this.#pool ?? {};
    return { used: totalCount - idleCount, idle: idleCount, waiting: waitingCount };
  }

  /** The pool for the query builder, with its waits counted. */
  over(pool: Pool, monotonicMs: () => number): PostgresPool {
    this.#pool = pool;
    return {
      connect: async () => {
        const startMs = monotonicMs();
        try {
          return await pool.connect();
        } catch (error) {
          this.errors.count("connection");
          throw error;
        } finally {
          this.waits.add(monotonicMs() - startMs);
        }
      },
      end: () => pool.end(),
      options: pool.options,
    };
  }

  /** Counts failed statements. The query builder takes this as its log. */
  readonly onEvent = (event: LogEvent): void => {
    if (event.level !== "error") return;
    const { error } = event;
    if (error instanceof DatabaseError) this.errors.count(classOf(error));
    else this.errors.count("connection");
  };
}

/** The class of an error of PostgreSQL: the first two characters of its code. */
function classOf({ code = "" }: DatabaseError): string {
  return code.slice(0, 2);
}
