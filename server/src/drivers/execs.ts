// Keeps the commands that a driver runs in its replicas. A command ends before its replica does,
// and with the driver.
import { getOrInsert } from "#lib/get-or-insert.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { ExecRefused, replicaNotRunning, type RunningExec } from "./exec.ts";

const stopping = "The replica was stopped.";
const closing = "The platform is stopping.";

/** The running commands. The caller limits their number. */
export class Execs {
  readonly #running = new Map<ReplicaId, Set<RunningExec>>();
  /** Replicas that run no further commands. */
  readonly #ended = new Set<ReplicaId>();
  #isClosed = false;

  /**
   * Calls `start`, and keeps its command until that ends. Rejects with `ExecRefused` once the
   * replica is being stopped.
   */
  async run(replicaId: ReplicaId, start: () => Promise<RunningExec>): Promise<RunningExec> {
    if (this.#isOver(replicaId)) throw new ExecRefused(replicaNotRunning);
    const exec = await start();
    // All commands that run in this replica.
    const all = getOrInsert(this.#running, replicaId, () => new Set());
    all.add(exec);
    void exec.ended.finally(() => {
      all.delete(exec);
      if (all.size === 0 && this.#running.get(replicaId) === all) this.#running.delete(replicaId);
    });
    if (this.#isOver(replicaId)) exec.end(stopping);
    return exec;
  }

  /** Ends the commands of a replica, and refuses new ones there. */
  end(replicaId: ReplicaId): void {
    this.#ended.add(replicaId);
    for (const exec of this.#running.get(replicaId) ?? []) exec.end(stopping);
  }

  /** Called when the replica is gone. */
  forget(replicaId: ReplicaId): void {
    this.#ended.delete(replicaId);
  }

  /** Ends all commands; resolves when they have ended. */
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
