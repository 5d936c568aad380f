// The life cycle of a replica: its states, and a table of the allowed moves between the states. The
// table holds for the row in the database and for the replica in memory.

/**
 * `starting`: may not take calls yet. `draining`: takes no new calls and is ending. `stopped`:
 * gone.
 */
export type ReplicaState = "starting" | "ready" | "draining" | "stopped";

/**
 * Why the platform ends a replica. `wanted`: nothing is wrong with it. `timeout`: it did not become
 * ready in time, which counts as a failed start. `unhealthy`: its health check failed. `stuck`: it
 * works on a cancelled run, which can be stopped in no other way, so it gets no time to finish.
 * `reclaimed`: it makes way for a protected replica.
 */
export type EndOrder = {
  /** A sentence for the app's owner. */
  readonly reason: string;
  readonly kind: "wanted" | "timeout" | "unhealthy" | "stuck" | "reclaimed";
};

/** For each state, the states that may follow. */
const replicaMoves: Readonly<Record<ReplicaState, readonly ReplicaState[]>> = {
  starting: ["ready", "draining", "stopped"],
  ready: ["draining", "stopped"],
  draining: ["stopped"],
  stopped: [],
};

/** True when a replica may move from `from` to `to`. */
export function canMove(from: ReplicaState, to: ReplicaState): boolean {
  return replicaMoves[from].includes(to);
}

/** The states from which a replica may move to `to`; the condition of an UPDATE names them. */
export function statesBefore(to: ReplicaState): ReplicaState[] {
  return (Object.keys(replicaMoves) as ReplicaState[]).filter((from) => canMove(from, to));
}
