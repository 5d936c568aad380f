// The states of an async run and the allowed moves between them; every write of a state follows
// this table. Pure.
import { runStates, type FinalState, type RunState } from "@slipway/contract/words.ts";

/** Each state → the states that may follow. A state without followers is final. */
export const runMoves: Readonly<Record<RunState, readonly RunState[]>> = {
  /**
   * Accepted; no platform holds it, or it is to be retried later. The run of a file fails in this
   * state when the build of its files has failed.
   */
  pending: ["queued", "failure", "cancelled"],
  /** A platform holds it, and it waits for a slot on a replica. */
  queued: ["pending", "running", "failure", "cancelled", "timeout"],
  /** Sent to a replica, or about to be: after a crash it must be treated as sent. */
  running: ["pending", "success", "failure", "cancelled", "timeout"],
  success: [],
  failure: [],
  cancelled: [],
  timeout: [],
};

/** The states that may precede `to`. */
export function runStatesBefore(to: RunState): RunState[] {
  return runStates.filter((from) => runMoves[from].includes(to));
}

/** True when no state may follow. */
export function isFinal(state: RunState): state is FinalState {
  return runMoves[state].length === 0;
}
