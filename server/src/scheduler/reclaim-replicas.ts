// Ends interruptible replicas when protected releases wait and no other capacity becomes free for
// them. `reclaim.ts` chooses the replicas.
import type { Driver } from "#drivers/driver.ts";
import type { Occupancy } from "./demand.ts";
import {
  chooseReclaimed,
  reclaimedReason,
  type ClaimingReplica,
  type ProtectedWish,
} from "./reclaim.ts";
import type { Fleet } from "./replica.ts";
import type { ReplicaDrain } from "./replica-drain.ts";

type ReclaimParts = {
  readonly driver: Pick<Driver, "pools">;
  readonly fleet: Fleet;
  readonly occupancy: Occupancy;
  readonly drain: ReplicaDrain;
};

/** Ends replicas so that the protected releases in `waiting` can start; earlier ones come first. */
export function reclaimReplicas(parts: ReclaimParts, waiting: readonly ProtectedWish[]): void {
  const { driver, fleet, occupancy, drain } = parts;
  const { all: pools, claims, free } = driver.pools;
  const replicas: ClaimingReplica[] = [];
  for (const { replicaId, appId, state, isTrial, beganAtMs } of fleet.all()) {
    const claim = claims.get(replicaId);
    if (claim === undefined) continue;
    const running = occupancy.running(replicaId);
    const isDraining = state === "draining";
    replicas.push({ replicaId, appId, claim, isTrial, running, beganAtMs, isDraining });
  }
  for (const replicaId of chooseReclaimed({ pools, free, replicas, waiting })) {
    const replica = fleet.get(replicaId);
    if (replica !== undefined) drain.end(replica, { reason: reclaimedReason, kind: "reclaimed" });
  }
}
