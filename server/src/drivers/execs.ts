// The commands that a driver runs in its replicas, by replica: they end before their replica, and
// with the driver.
import { getOrInsert } from "#lib/get-or-insert.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { ExecRefused, replicaNotRunning, type RunningExec } from "./exec.ts";

const stopping = "The replica was stopped.";
const closing = "The platform is stopping.";

/** Commands that run. How many there may be is the caller's to say. */
export class Execs {
  readonly #running = new Map<ReplicaId, Set<RunningExec>>();
  /** Replicas that run no further commands. */
  readonly #ended = new Set<ReplicaId>();
  #isClosed = false;

  /**
   * Keeps what `start` starts until it ends. Rejects with `ExecRefused` once the replica is being
   * stopped.
   */
  async run(replicaId: ReplicaId, start: () => Promise<RunningExec>): Promise<RunningExec> {
    if (this.#isOver(replicaId)) throw new ExecRefused(replicaNotRunning);
    const exec = await start();
    const all = getOrInsert(this.#running, replicaId, () => new Set());
    all.add(exec);
    void exec.ended.finally(() => {
      all.delete(exec);
      if (all.size === 0 && this.#running.get(replicaId) === all) this.#running.delete(replicaId);
    });
    if (this.#isOver(replicaId)) exec.end(stopping);
    return exec;
  }

  /** Ends those of a replica, which runs no more of them. */
  end(replicaId: ReplicaId): void {
    this.#ended.add(replicaId);
    for (const exec of this.#running.get(replicaId) ?? []) exec.end(stopping);
  }

  /** The replica is gone. */
  forget(replicaId: ReplicaId): void {
    this.#ended.delete(replicaId);
  }

  /** Ends all; resolves when they are gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const all = [...this.#running.values()].flatMap((execs) => [...execs]);
    for (const exec of all) exec.end(closing);
    await Promise.all(all.map(({ ended }) => ended));
  }

  #isOver(replicaId: ReplicaId): boolean {
    return this.#isClosed || this.#ended.has(replicaId);
  }
}
