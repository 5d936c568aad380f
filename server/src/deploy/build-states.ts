// The life of a build: its states, and one table of the moves between them. Pure; `build-store.ts` names the state
// that each UPDATE leaves, and takes it from here.
import { buildStates, type BuildState } from "@slipway/contract/words.ts";

/** States that end a build. */
export type BuildEnd = Exclude<BuildState, "pending" | "building" | "initializing">;

const moves: Readonly<Record<BuildState, readonly BuildState[]>> = {
  // A claim makes it `building`; one that nobody has claimed yet is cancelled at once.
  pending: ["building", "cancelled"],
  // To itself: taken back after whoever worked on it was gone. `pending`: put back when the platform stops.
  building: ["building", "pending", "initializing", "build_failure", "cancelled"],
  // Back to `building`: a build that is taken back starts again from its first stage.
  initializing: ["building", "pending", "success", "init_failure", "init_timeout", "build_failure", "cancelled"],
  success: [],
  build_failure: [],
  init_failure: [],
  init_timeout: [],
  cancelled: [],
};

/** The states that may be left for `to`. */
export function buildStatesBefore(to: BuildState): BuildState[] {
  return buildStates.filter((state) => moves[state].includes(to));
}

/** True when the table allows the move. */
export function canMoveBuild(from: BuildState, to: BuildState): boolean {
  return moves[from].includes(to);
}

/** True for a state that no move leaves. */
export function isEnd(state: BuildState): state is BuildEnd {
  return moves[state].length === 0;
}

/** How often a build is begun before it is given up on; each beginning raises the epoch of its lease by one. */
export const takesMax = 3;
