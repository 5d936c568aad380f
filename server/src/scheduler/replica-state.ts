// The life cycle of a replica: one union and one table of allowed moves. Rows and memory move by the same table.

/** `starting`: may not take calls yet. `draining`: takes no new ones and is being ended. `stopped`: gone. */
export type ReplicaState = "starting" | "ready" | "draining" | "stopped";

/** From each state, the states that may follow. */
const replicaMoves: Readonly<Record<ReplicaState, readonly ReplicaState[]>> = {
  starting: ["ready", "draining", "stopped"],
  ready: ["draining", "stopped"],
  draining: ["stopped"],
  stopped: [],
};

/** True when a replica in `from` may become `to`. */
export function canMove(from: ReplicaState, to: ReplicaState): boolean {
  return replicaMoves[from].includes(to);
}

/** The states from which `to` may be reached: what an UPDATE names. */
export function statesBefore(to: ReplicaState): ReplicaState[] {
  return (Object.keys(replicaMoves) as ReplicaState[]).filter((from) => canMove(from, to));
}
