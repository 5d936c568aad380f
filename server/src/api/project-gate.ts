// The gate before costly requests: they are asked by turns of projects, so that one project's searches leave connections
// to the database, and memory, to everybody and everything else.
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";

type Bounds = {
  readonly max: number;
  readonly projectMax: number;
  readonly projectWaitingMax: number;
  /** What they ask for, for the refusal. */
  readonly what: string;
};

/** Refuses with `Fault("rate_limited")` when too many of the key, a project, wait. */
export function projectGate({ max, projectMax, projectWaitingMax, what }: Bounds): Gate {
  const message = `${projectWaitingMax} requests of the project are already waiting for ${what}; try again when some have been answered.`;
  return new Gate({
    ...{ max, keyMax: projectMax, waitingMax: Number.POSITIVE_INFINITY, keyWaitingMax: projectWaitingMax },
    refusal: () => new Fault("rate_limited", message, { retryAfterSeconds: 1 }),
  });
}
