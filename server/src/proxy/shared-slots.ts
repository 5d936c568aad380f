// Chooses a replica while several releases take calls: first draws a release by its share, then
// chooses one of its replicas. If that release is full, another one takes the call, so under full
// load each release gets calls in proportion to its capacity. Allocates nothing for a call.
import type { LoadBalancingAlgorithm } from "@slipway/contract/app-choices.ts";
import type { ReleaseShare } from "#scheduler/replica-view.ts";
import { choose, type RoundRobin } from "./choose.ts";
import type { ReplicaSlot } from "./replica-slot.ts";

/** The open replicas of one release. */
export type SharedSlots = {
  /**
   * The sum of the shares up to and including this release. The first release whose sum is above
   * the drawn number is chosen.
   */
  readonly end: number;
  readonly slots: readonly ReplicaSlot[];
  /** The replica in `slots` that the round-robin algorithm tries first. */
  readonly turn: RoundRobin;
};

/** Groups the open replicas by release; null: fewer than two releases have any. */
export function dividedBetween(
  shares: readonly ReleaseShare[],
  open: readonly ReplicaSlot[],
): readonly SharedSlots[] | null {
  let end = 0;
  const groups: SharedSlots[] = [];
  for (const { releaseId, weight } of shares) {
    const slots = open.filter((slot) => slot.replica.releaseId === releaseId);
    if (slots.length === 0) continue;
    end += weight;
    groups.push({ end, slots, turn: { next: 0 } });
  }
  return groups.length < 2 ? null : groups;
}

/**
 * The replica for the next call; undefined: none has capacity now. `random` returns numbers from 0
 * up to, but not including, 1.
 */
export function findShared(
  groups: readonly SharedSlots[],
  algorithm: LoadBalancingAlgorithm,
  random: () => number,
): ReplicaSlot | undefined {
  const count = groups.length;
  // The last sum is below 1 if a release with a share has no open replica.
  const drawn = random() * (groups[count - 1] as SharedSlots).end;
  let index = 0;
  while (index < count - 1 && drawn >= (groups[index] as SharedSlots).end) index++;
  for (let tries = 0; tries < count; tries++) {
    const { slots, turn } = groups[index] as SharedSlots;
    const chosen = choose(algorithm, slots, turn, random);
    if (chosen !== -1) return slots[chosen];
    index = index + 1 === count ? 0 : index + 1;
  }
  return undefined;
}
