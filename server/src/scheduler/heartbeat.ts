// Periodically records, for all replicas at once, that they are running. If the machine or the
// platform disappears with them, their usage is counted up to the last record.
import type { Driver } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { Fleet, Replica } from "./replica.ts";
import type { ReplicaRows } from "./replica-rows.ts";

/** A replica that disappears loses at most this much usage. */
export const heartbeatIntervalMs = 15_000;

export type HeartbeatParts = {
  readonly fleet: Fleet;
  readonly driver: Pick<Driver, "list">;
  readonly rows: Pick<ReplicaRows, "seen">;
  readonly clock: Clock;
};

/** Records the running replicas. Rejects when the database or the driver does not answer. */
export async function writeHeartbeats({
  fleet,
  driver,
  rows,
  clock,
}: HeartbeatParts): Promise<void> {
  const nowMs = clock.monotonicMs();
  const running: Replica[] = [];
  for (const { replicaId, state, isUnseen } of await driver.list()) {
    // A replica that is listed as running but was never checked may have ended.
    if (state !== "running" || isUnseen === true) continue;
    const replica = fleet.get(replicaId);
    if (replica !== undefined && !replica.isCreating) running.push(replica);
  }
  if (running.length === 0) return;
  for (const replica of running)
    replica.seenAtMs = Math.max(replica.seenAtMs, replica.timeAt(nowMs));
  await rows.seen(running.map(({ replicaId, seenAtMs }) => ({ replicaId, at: seenAtMs })));
}
