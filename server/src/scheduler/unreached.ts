// Notices that a replica which starts listens elsewhere than where it is called, long before its
// start is given up. `ReplicaWatch` asks for it: a line in its log then says so within seconds,
// while the start goes on, since a server may open the port of its metrics first.
import type { Driver } from "#drivers/driver.ts";
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { Clock } from "#lib/clock.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import type { Replica } from "./replica.ts";

/** How long a driver may look for where a replica listens. */
const lookMsMax = 5000;
/** Looking costs the docker driver a program in the container. */
const pauses: Backoff = { firstMs: 1000, factor: 2, msMax: 10_000, jitter: 0 };
/** It must still be so after that: many servers open one port right after another. */
const confirmMs = 2000;

type Parts = { readonly driver: Pick<Driver, "whyUnreached">; readonly clock: Clock };
type Looked = Pick<Replica, "replicaId" | "settings" | "state" | "deadlineMs" | "abort">;

/**
 * A sentence for the app's owner; null: nothing is to be said, or it could not be found out. Never
 * rejects.
 */
export async function reasonUnreached(
  { replicaId, settings }: Looked,
  { driver, clock }: Parts,
): Promise<string | null> {
  // It listens on a socket that the platform made.
  if (settings.runtime === "cortex") return null;
  return await withDeadline(clock, lookMsMax, driver.whyUnreached(replicaId)).catch(() => null);
}

/**
 * Calls `onFound` at most once, with a line for its log; ends when it has, or when the replica no
 * longer starts.
 */
export async function watchUnreached(
  replica: Looked,
  { onFound, ...parts }: Parts & { readonly onFound: (line: string) => void },
): Promise<void> {
  if (replica.settings.runtime === "cortex") return;
  const { signal } = replica.abort;
  let before: string | null = null;
  for (let attempt = 1; isStarting(replica); attempt++) {
    const pauseMs = before === null ? backoffMs(pauses, attempt, 0.5) : confirmMs;
    await parts.clock.sleep(pauseMs, signal).catch(() => undefined);
    if (!isStarting(replica)) return;
    const found = await reasonUnreached(replica, parts);
    if (!isStarting(replica)) return;
    if (found !== null && found === before) {
      onFound(`[slipway] No call can reach it yet. ${found} ${waitText(replica)}`);
      return;
    }
    before = found;
  }
}

function isStarting({ state, abort }: Looked): boolean {
  return state === "starting" && !abort.signal.aborted;
}

function waitText({ deadlineMs }: Looked): string {
  return `The start goes on for up to ${Math.round(deadlineMs / 1000)} s, in case it opens its port later.`;
}
