// The states of an async run and the moves between them; every write of a state goes by this table. Pure.

/** Every state → the states that may follow. A state with no follower is final. */
export const runMoves = {
  /** Accepted; in nobody's hands, or tried again later. */
  pending: ["queued", "cancelled"],
  /** In the hands of a platform, and waiting for a place on a replica. */
  queued: ["pending", "running", "failure", "cancelled", "timeout"],
  /** Sent to a replica, or about to be: whoever sees this after a crash must take it for sent. */
  running: ["pending", "success", "failure", "cancelled", "timeout"],
  success: [],
  failure: [],
  cancelled: [],
  timeout: [],
} as const satisfies Record<string, readonly string[]>;

export type RunState = keyof typeof runMoves;

/** How a run may end. */
export type FinalState = "success" | "failure" | "cancelled" | "timeout";

/** The states from which `to` may be reached. */
export function statesBefore(to: RunState): RunState[] {
  return (Object.keys(runMoves) as RunState[]).filter((from) => (runMoves[from] as readonly RunState[]).includes(to));
}

/** True when nothing follows any more. */
export function isFinal(state: RunState): state is FinalState {
  return runMoves[state].length === 0;
}
