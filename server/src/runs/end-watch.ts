// Waits for runs to end, on any platform: polls the database with one query for all waiting
// callers, until the last run has ended or the last wait has timed out.
import type { RunId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import { readEndedRuns } from "./run-list-store.ts";

type Waiter = {
  readonly runId: RunId;
  /** When the wait times out, by `Clock.monotonicMs`. */
  readonly endMs: number;
  readonly resolve: (hasEnded: boolean) => void;
};

/** The pause between two queries. */
const pauseMs = 50;
/** With this many waiting callers, `wait` returns false at once. */
const waitersMax = 1_000;

/** Lets callers wait for runs; one per platform. It needs no closing: every wait ends by itself. */
export class EndWatch {
  readonly #parts: Pick<Foundation, "db" | "clock" | "log">;
  readonly #waiters = new Set<Waiter>();
  #isPolling = false;

  constructor(parts: Pick<Foundation, "db" | "clock" | "log">) {
    this.#parts = parts;
  }

  /**
   * True as soon as the run has ended; false after `waitMs`, or at once if too many callers wait.
   * Never rejects.
   */
  wait(runId: RunId, waitMs: number): Promise<boolean> {
    if (this.#waiters.size >= waitersMax) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#waiters.add({ runId, endMs: this.#parts.clock.monotonicMs() + waitMs, resolve });
      if (!this.#isPolling) void this.#pollUntilNobodyWaits();
    });
  }

  async #pollUntilNobodyWaits(): Promise<void> {
    this.#isPolling = true;
    while (this.#waiters.size > 0) {
      const ended = await this.#readEnded().catch((error: unknown) => {
        this.#parts.log.warn({ err: error }, "the ends of runs could not be looked for");
        return new Set<RunId>();
      });
      const nowMs = this.#parts.clock.monotonicMs();
      for (const waiter of this.#waiters) {
        const hasEnded = ended.has(waiter.runId);
        if (!hasEnded && nowMs < waiter.endMs) continue;
        this.#waiters.delete(waiter);
        waiter.resolve(hasEnded);
      }
      if (this.#waiters.size > 0) await this.#parts.clock.sleep(pauseMs);
    }
    // No await lies between the check for waiters and this line, so the next waiter starts the loop
    // again.
    this.#isPolling = false;
  }

  async #readEnded(): Promise<Set<RunId>> {
    const ids = [...new Set([...this.#waiters].map(({ runId }) => runId))];
    return new Set(await readEndedRuns(this.#parts.db, ids));
  }
}
