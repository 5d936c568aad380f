// The states of an async run and the runMoves between them; every write of a state goes by this table. Pure.
import { runStates, type FinalState, type RunState } from "@slipway/contract/words.ts";

/** Every state → the states that may follow. A state with no follower is final. */
export const runMoves: Readonly<Record<RunState, readonly RunState[]>> = {
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
};

/** The states from which `to` may be reached. */
export function runStatesBefore(to: RunState): RunState[] {
  return runStates.filter((from) => runMoves[from].includes(to));
}

/** True when nothing follows any more. */
export function isFinal(state: RunState): state is FinalState {
  return runMoves[state].length === 0;
}
