// Notes from time to time, for all replicas at once, that they run: if the machine or the platform vanishes with them, usage
// is counted up to then, and no further.
import type { Clock } from "#lib/clock.ts";
import type { Fleet } from "./replica.ts";
import type { ReplicaRows } from "./replica-rows.ts";

/** What usage may lack of a replica that vanished. */
export const sightingIntervalMs = 15_000;

/** Rejects when the database does not answer. */
export async function noteSightings(fleet: Fleet, rows: Pick<ReplicaRows, "seen">, clock: Clock): Promise<void> {
  const running = fleet.all().filter((replica) => !replica.isCreating);
  if (running.length === 0) return;
  const at = clock.now();
  for (const replica of running) replica.seenAtMs = Math.max(replica.seenAtMs, at);
  await rows.seen(
    running.map(({ replicaId }) => replicaId),
    at,
  );
}
