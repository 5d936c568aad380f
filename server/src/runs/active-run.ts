// A run that this platform works on: being sent, or re-attached after a restart.
import type { RunWork } from "./run-store.ts";

/**
 * Exists from the claim (or the acceptance) of a run until the end of the run is written, the run
 * is given back, or its lease is lost.
 */
export interface ActiveRun {
  readonly work: RunWork;
  /**
   * Called when a cancel was requested; the run ends as `cancelled` unless it has already ended
   * otherwise.
   */
  cancel(): void;
  /** Called when another platform has claimed the run: drops it silently. */
  abandon(): void;
  /**
   * Called when the platform stops. A waiting run is given back; a run whose answer the replica
   * keeps is left to the next start of the platform. True when the run continues, because its
   * answer would be lost otherwise.
   */
  leave(): boolean;
}

/** Called once, when this platform no longer holds the run. */
export type OnLetGo = () => void;
