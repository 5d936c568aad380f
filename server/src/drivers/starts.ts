// The starts of replicas that are in progress in a driver, at most one per replica. A stop of the
// replica cancels its start.
import type { ReplicaId } from "#lib/ids.ts";
import type { ReplicaSpec } from "./driver.ts";

type Start = {
  readonly spec: ReplicaSpec;
  readonly done: Promise<void>;
  readonly cancel: AbortController;
};

/** Starts in progress. */
export class Starts {
  readonly #starts = new Map<ReplicaId, Start>();

  /** The replicas that are being started. */
  get specs(): readonly ReplicaSpec[] {
    return Array.from(this.#starts.values(), ({ spec }) => spec);
  }

  has(replicaId: ReplicaId): boolean {
    return this.#starts.has(replicaId);
  }

  /** Runs `start`. If the replica is being started already, returns the outcome of that start. */
  run(
    spec: ReplicaSpec,
    signal: AbortSignal,
    start: (signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const { replicaId } = spec;
    const running = this.#starts.get(replicaId);
    if (running !== undefined) return running.done;
    const cancel = new AbortController();
    const done = start(AbortSignal.any([signal, cancel.signal])).finally(() =>
      this.#starts.delete(replicaId),
    );
    this.#starts.set(replicaId, { spec, done, cancel });
    return done;
  }

  /** Cancels the start of this replica, if there is one, and waits until it has ended. */
  async cancel(replicaId: ReplicaId): Promise<void> {
    const start = this.#starts.get(replicaId);
    start?.cancel.abort();
    await start?.done.catch(() => undefined);
  }

  /** Waits until all starts have ended, with or without success. */
  async settled(): Promise<void> {
    await Promise.allSettled(Array.from(this.#starts.values(), ({ done }) => done));
  }
}
