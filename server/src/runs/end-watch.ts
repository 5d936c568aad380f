// Waits for runs to end, whoever ends them: one question to the database for all that are waited for, again and again
// until the last of them has ended or its time is over.
import type { Clock } from "#lib/clock.ts";
import type { RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { Db } from "#store/database.ts";

type Waiter = { readonly runId: RunId; readonly endMs: number; readonly resolve: (hasEnded: boolean) => void };

const pauseMs = 50;
/** Who comes when so many wait is not waited for. */
const waitersMax = 1_000;

/** One for the platform; nothing is to be closed, since every wait has its own end. */
export class EndWatch {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #waiters = new Set<Waiter>();
  #isAsking = false;

  constructor({ db, clock, log }: { readonly db: Db; readonly clock: Clock; readonly log: Log }) {
    this.#db = db;
    this.#clock = clock;
    this.#log = log;
  }

  /** True as soon as the run is seen to have ended; false when `waitMs` are over. Never rejects. */
  wait(runId: RunId, waitMs: number): Promise<boolean> {
    if (this.#waiters.size >= waitersMax) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#waiters.add({ runId, endMs: this.#clock.monotonicMs() + waitMs, resolve });
      if (!this.#isAsking) void this.#askUntilNobodyWaits();
    });
  }

  async #askUntilNobodyWaits(): Promise<void> {
    this.#isAsking = true;
    while (this.#waiters.size > 0) {
      const ended = await this.#ended().catch((error: unknown) => {
        this.#log.warn({ err: error }, "the ends of runs could not be looked for");
        return new Set<RunId>();
      });
      const nowMs = this.#clock.monotonicMs();
      for (const waiter of this.#waiters) {
        const hasEnded = ended.has(waiter.runId);
        if (!hasEnded && nowMs < waiter.endMs) continue;
        this.#waiters.delete(waiter);
        waiter.resolve(hasEnded);
      }
      if (this.#waiters.size > 0) await this.#clock.sleep(pauseMs);
    }
    // No await since nobody was left: who comes from here on starts it again.
    this.#isAsking = false;
  }

  async #ended(): Promise<Set<RunId>> {
    const ids = [...new Set([...this.#waiters].map(({ runId }) => runId))];
    const rows = await this.#db
      .selectFrom("runs")
      .select("id")
      .where("id", "in", ids)
      .where("ended_at", "is not", null)
      .execute();
    return new Set(rows.map((row) => row.id));
  }
}
