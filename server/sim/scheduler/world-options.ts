// What can be chosen about a simulated world, and what it reports.
import type { Mutation } from "./sim-platform.ts";

export type WorldOptions = {
  readonly seed: number;
  readonly steps: number;
  readonly mutation?: Mutation;
  /**
   * The apps are of a project that may have a bounded number of replicas, which changes from time
   * to time.
   */
  readonly isLimited?: boolean;
  /** Apps are stopped and started by people from time to time. */
  readonly isStopping?: boolean;
  /** Most starts fail. */
  readonly isFailing?: boolean;
  /** All apps share a small pool, and some are protected. */
  readonly isCrowded?: boolean;
};

/** What happened, for a look at whether the simulation is worth something. */
export type WorldReport = {
  served: number;
  refused: number;
  crashed: number;
  starts: number;
  deploys: number;
  /** Steps of roll-outs, and roll-outs that were taken back. */
  steps: number;
  takenBack: number;
  /** Restarts of the platform. */
  restarts: number;
  /** Restarts of an app that were asked for. */
  replacements: number;
  stops: number;
  /** Outages of the backend. */
  outages: number;
  /** Replicas that made way for protected ones. */
  reclaimed: number;
  /** Restarts of the platform while a replica made way. */
  cuts: number;
};
