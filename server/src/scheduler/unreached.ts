// Notices, long before the deadline of a start, that the starting replica does not listen at the
// address that the platform calls. `ReplicaWatch` then adds a line to the replica's log within
// seconds. The start goes on, since a server may open the port of its metrics first.
import type { Driver } from "#drivers/driver.ts";
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { Clock } from "#lib/clock.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import type { Replica } from "./replica.ts";

/** How long a driver may take to find out where a replica listens. */
const searchMsMax = 5000;
/**
 * The pauses between searches. They grow, because each search of the docker driver runs a program
 * in the container.
 */
const pauses: Backoff = { firstMs: 1000, factor: 2, msMax: 10_000, jitter: 0 };
/** The pause before a result is confirmed: many servers open a second port soon after the first. */
const confirmMs = 2000;

type Parts = { readonly driver: Pick<Driver, "whyUnreached">; readonly clock: Clock };
type StartingReplica = Pick<Replica, "replicaId" | "settings" | "state" | "deadlineMs" | "abort">;

/**
 * Why calls cannot reach the replica, in a sentence for the app's owner; null: they can, or the
 * reason could not be found out. Never rejects.
 */
export async function reasonUnreached(
  { replicaId, settings }: StartingReplica,
  { driver, clock }: Parts,
): Promise<string | null> {
  // The cortex runtime listens on a socket that the platform made.
  if (settings.runtime === "cortex") return null;
  return await withDeadline(clock, searchMsMax, driver.whyUnreached(replicaId)).catch(() => null);
}

/**
 * Calls `onFound` at most once, with a line for the replica's log. Resolves after that, or when the
 * replica is no longer starting.
 */
export async function watchUnreached(
  replica: StartingReplica,
  { onFound, ...parts }: Parts & { readonly onFound: (line: string) => void },
): Promise<void> {
  if (replica.settings.runtime === "cortex") return;
  const { signal } = replica.abort;
  /** The result of the previous search, which the next one must confirm. */
  let previous: string | null = null;
  for (let attempt = 1; isStarting(replica); attempt++) {
    // The pauses have no jitter, so the random number 0.5 does not matter.
    const pauseMs = previous === null ? backoffMs(pauses, attempt, 0.5) : confirmMs;
    // An abort ends the pause; the next line then returns.
    await parts.clock.sleep(pauseMs, signal).catch(() => undefined);
    if (!isStarting(replica)) return;
    const reason = await reasonUnreached(replica, parts);
    if (!isStarting(replica)) return;
    if (reason !== null && reason === previous) {
      onFound(`[slipway] No call can reach it yet. ${reason} ${waitText(replica)}`);
      return;
    }
    previous = reason;
  }
}

function isStarting({ state, abort }: StartingReplica): boolean {
  return state === "starting" && !abort.signal.aborted;
}

function waitText({ deadlineMs }: StartingReplica): string {
  return `The start goes on for up to ${Math.round(deadlineMs / 1000)} s, in case it opens its port later.`;
}
