// What scales in the comparison, and the app that it scales: one release, no failures, a fixed time
// to start.
import type { AppId } from "#lib/ids.ts";
import type { ModelProxy } from "#test/support/model-proxy.ts";

/** One that scales. Calls go to its proxy. */
export type Contender = {
  readonly proxy: ModelProxy;
  /** How many replicas exist now: starting, serving and draining. */
  readonly replicaCount: () => number;
  readonly stop: () => Promise<void>;
};

/** The app, the same for everybody. */
export const loadAppId = "p-00000000-load" as AppId;

/** How many calls a replica runs at once, and how long one takes to start. */
export const callsPerReplica = 10;
export const coldMs = 2000;

/** No call is refused: who waits, waits. */
export const lineLengthMax = Number.POSITIVE_INFINITY;
