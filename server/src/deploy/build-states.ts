// The life cycle of a build: its states, and a table of the moves between them. Pure;
// `build-store.ts` takes from here the states that each UPDATE may leave.
import { buildStates, type BuildState } from "@slipway/contract/words.ts";

/** Final states of a build. */
export type BuildEnd = Exclude<BuildState, "pending" | "building" | "initializing">;

/** For each state, the states that it may move to. */
const moves: Readonly<Record<BuildState, readonly BuildState[]>> = {
  // A claim moves it to `building`; cancelling an unclaimed build takes effect at once.
  pending: ["building", "cancelled"],
  // A takeover from a lost worker leaves it `building`; a stop of the platform puts it back to
  // `pending`.
  building: ["building", "pending", "initializing", "build_failure", "cancelled"],
  // Back to `building`: a build that is taken over starts again from its first stage.
  initializing: [
    "building",
    "pending",
    "success",
    "init_failure",
    "init_timeout",
    "build_failure",
    "cancelled",
  ],
  success: [],
  build_failure: [],
  init_failure: [],
  init_timeout: [],
  cancelled: [],
};

/** The states that may move to `to`. */
export function buildStatesBefore(to: BuildState): BuildState[] {
  return buildStates.filter((state) => moves[state].includes(to));
}

/** True for a final state. */
export function isEnd(state: BuildState): state is BuildEnd {
  return moves[state].length === 0;
}

/** The maximum number of attempts of a build; each attempt raises the epoch of its lease by one. */
export const takesMax = 3;
