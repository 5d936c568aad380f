// Writes changes of replicas into their rows: in order for each replica, without delaying the
// decision that caused them, and with retries while the database does not answer, because usage is
// computed from these rows.
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import type { NewReplicaRow, ReplicaChange, ReplicaRows } from "./replica-rows.ts";

/**
 * Retries for about a day. After that, the next start of the platform finds the missing changes,
 * since it compares rows and replicas.
 */
const writeRetries: RetryPolicy = {
  firstMs: 100,
  factor: 2,
  msMax: 15_000,
  jitter: 0.2,
  triesMax: 6000,
};

type WrittenRows = Pick<ReplicaRows, "insert" | "change">;

/** Writes rows in order; at most four changes are pending per replica, one of each kind. */
export class RowWriter {
  readonly #rows: WrittenRows;
  readonly #clock: Clock;
  readonly #log: Log;
  /** For each replica, a promise that resolves when all its writes so far are done. */
  readonly #chains = new Map<ReplicaId, Promise<void>>();
  readonly #abort = new AbortController();

  constructor(parts: { rows: WrittenRows; clock: Clock; log: Log }) {
    this.#rows = parts.rows;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * Resolves when the row is durable; rejects when it cannot be written now, since a start must not
   * wait long.
   */
  insert(row: NewReplicaRow): Promise<void> {
    const inserting = this.#rows.insert(row);
    // The caller handles a failed insert; changes of the missing row then do nothing.
    void this.#chain(
      row.replicaId,
      inserting.then(undefined, () => undefined),
    );
    return inserting;
  }

  /**
   * Writes the change after all earlier changes of the replica. Resolves when it is stored, or
   * abandoned by `stop`.
   */
  change(replicaId: ReplicaId, change: ReplicaChange): Promise<void> {
    if (this.#abort.signal.aborted) return Promise.resolve();
    const earlier = this.#chains.get(replicaId) ?? Promise.resolve();
    return this.#chain(
      replicaId,
      earlier.then(() => this.#write(replicaId, change)),
    );
  }

  /** Number of replicas with unstored changes. */
  get waiting(): number {
    return this.#chains.size;
  }

  /** Waits at most `waitMs` for pending writes, then abandons the rest. */
  async stop(waitMs: number): Promise<void> {
    const cancel = this.#clock.after(waitMs, () =>
      this.#abort.abort(new Error("the platform stops")),
    );
    await Promise.all(this.#chains.values());
    cancel();
    this.#abort.abort(new Error("the platform stops"));
  }

  /** Keeps the chain, to which the next write is added, until it is done. */
  #chain(replicaId: ReplicaId, chain: Promise<void>): Promise<void> {
    const tracked = chain.finally(() => {
      if (this.#chains.get(replicaId) === tracked) this.#chains.delete(replicaId);
    });
    this.#chains.set(replicaId, tracked);
    return tracked;
  }

  async #write(replicaId: ReplicaId, change: ReplicaChange): Promise<void> {
    const { signal } = this.#abort;
    const onFailure = (error: unknown, attempt: number, isLast: boolean): void => {
      const facts = { err: error, replicaId, change: change.kind, attempt };
      if (isLast) this.#log.error(facts, "gave up writing a replica's row");
      else this.#log.warn(facts, "could not write a replica's row");
    };
    await retry({ ...writeRetries, clock: this.#clock, signal, onFailure }, () =>
      this.#rows.change(replicaId, change),
    );
  }
}
