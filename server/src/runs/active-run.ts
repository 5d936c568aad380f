// A run in the hands of this platform: being sent, or being re-attached to after a restart.
import type { RunWork } from "./run-store.ts";

/** Lives from the claim (or the acceptance) until its end is written, it was given back, or its lease is lost. */
export interface ActiveRun {
  readonly work: RunWork;
  /** Its owner wants it to end; it ends as `cancelled` unless it has ended otherwise by then. */
  cancel(): void;
  /** Somebody else has it: it is let go without a word. */
  abandon(): void;
  /**
   * The platform stops: a run that waits is given back, one whose answer the replica keeps is left to the next start.
   * True: it goes on, as its answer would be lost.
   */
  leave(): boolean;
}

/** Told once, when a run is out of this platform's hands. */
export type OnLetGo = () => void;
