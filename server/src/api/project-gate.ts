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

/** Refuses with `Fault("rate_limited")` when too many requests of the key, a project, wait, or when one has waited too long. */
export function projectGate({ max, projectMax, projectWaitingMax, what }: Bounds): Gate {
  const message = `Too many requests for ${what} at once: ${projectMax} of a project are answered and ${projectWaitingMax} wait, ${max} of all are answered; try again when some have been.`;
  return new Gate({
    ...{ max, keyMax: projectMax, waitingMax: Number.POSITIVE_INFINITY, keyWaitingMax: projectWaitingMax },
    refusal: () => new Fault("rate_limited", message, { retryAfterSeconds: 1 }),
  });
}
