// Periodically records, for all replicas at once, that they are running: if the machine or the
// platform disappears with them, usage is counted up to then and no further.
import type { Driver } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { Fleet } from "./replica.ts";
import type { ReplicaRows } from "./replica-rows.ts";

/** Upper bound of the usage that is lost for a replica that disappears. */
export const heartbeatIntervalMs = 15_000;

export type HeartbeatParts = {
  readonly fleet: Fleet;
  readonly driver: Pick<Driver, "list">;
  readonly rows: Pick<ReplicaRows, "seen">;
  readonly clock: Clock;
};

/** Rejects when the database or the driver does not answer. */
export async function writeHeartbeats({
  fleet,
  driver,
  rows,
  clock,
}: HeartbeatParts): Promise<void> {
  const nowMs = clock.monotonicMs();
  const running = (await driver.list()).flatMap(({ replicaId, state, isUnseen }) => {
    const replica = state === "running" && isUnseen !== true ? fleet.get(replicaId) : undefined;
    return replica === undefined || replica.isCreating ? [] : [replica];
  });
  if (running.length === 0) return;
  for (const replica of running)
    replica.seenAtMs = Math.max(replica.seenAtMs, replica.timeAt(nowMs));
  await rows.seen(running.map(({ replicaId, seenAtMs }) => ({ replicaId, at: seenAtMs })));
}
