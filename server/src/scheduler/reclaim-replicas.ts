// Ends interruptible replicas where protected ones wait and nothing else makes way for them.
// `reclaim.ts` decides which.
import type { Driver } from "#drivers/driver.ts";
import type { Occupancy } from "./demand.ts";
import { chooseReclaimed, reclaimedReason, type ProtectedWish } from "./reclaim.ts";
import type { Fleet } from "./replica.ts";
import type { ReplicaDrain } from "./replica-drain.ts";

type ReclaimParts = {
  readonly driver: Pick<Driver, "pools">;
  readonly fleet: Fleet;
  readonly occupancy: Occupancy;
  readonly drain: ReplicaDrain;
};

/** `waiting`: the protected releases that wait, the first one first. */
export function reclaimReplicas(parts: ReclaimParts, waiting: readonly ProtectedWish[]): void {
  const { driver, fleet, occupancy, drain } = parts;
  const { all: pools, claims, free } = driver.pools;
  const replicas = fleet.all().flatMap((replica) => {
    const { replicaId, appId, state, isTrial, beganAtMs } = replica;
    const claim = claims.get(replicaId);
    if (claim === undefined) return [];
    const running = occupancy.running(replicaId);
    const isDraining = state === "draining";
    return [{ replicaId, appId, claim, isTrial, running, beganAtMs, isDraining }];
  });
  for (const replicaId of chooseReclaimed({ pools, free, replicas, waiting })) {
    const replica = fleet.get(replicaId);
    if (replica !== undefined) drain.end(replica, { reason: reclaimedReason, kind: "reclaimed" });
  }
}
