// The gate for expensive requests: projects take turns, so that one project's searches leave database connections and
// memory to everything else.
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";

type Bounds = {
  readonly max: number;
  readonly projectMax: number;
  readonly projectWaitingMax: number;
  /** The name of the requests, for the refusal. */
  readonly what: string;
};

/** Refuses with `Fault("rate_limited")` when too many requests of the key, a project, wait. */
export function projectGate({ max, projectMax, projectWaitingMax, what }: Bounds): Gate {
  const message = `${projectWaitingMax} requests of the project are already waiting for ${what}; try again when some have been answered.`;
  return new Gate({
    ...{ max, keyMax: projectMax, waitingMax: Number.POSITIVE_INFINITY, keyWaitingMax: projectWaitingMax },
    refusal: () => new Fault("rate_limited", message, { retryAfterSeconds: 1 }),
  });
}
