// Decides which zygotes there should be: those of the releases that were used last, as far as the
// memory for all of them reaches. Pure.
import type { ZygoteState } from "#drivers/driver.ts";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";

/** A release whose replicas could be forked. */
export type ZygoteCandidate = {
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  /** When a replica of it last had a call, in `Clock.monotonicMs`. */
  readonly usedAtMs: number;
  /** How much its zygote may need, in bytes. */
  readonly memoryBytes: number;
};

export type ZygotePlan = {
  /** The zygotes to end. */
  readonly ends: readonly ReplicaId[];
  /** The release to make a zygote for next; null: none. */
  readonly next: ZygoteCandidate | null;
};

/**
 * Plans for one turn. `made` has at most one zygote of each release. One that is no candidate any
 * more ends. The others stay in the order of their last use, as long as the memory suffices. A
 * candidate without a zygote displaces only zygotes that were used less recently.
 */
export function planZygotes(
  candidates: readonly ZygoteCandidate[],
  made: readonly ZygoteState[],
  budgetBytes: number,
): ZygotePlan {
  const zygotes = new Map(made.map((zygote) => [zygote.releaseId, zygote]));
  const kept = new Set<ReplicaId>();
  let next: ZygoteCandidate | null = null;
  let leftBytes = budgetBytes;
  for (const candidate of candidates.toSorted((a, b) => b.usedAtMs - a.usedAtMs)) {
    const zygote = zygotes.get(candidate.releaseId);
    const neededBytes = zygote?.memoryBytes ?? candidate.memoryBytes;
    if (neededBytes > leftBytes) continue;
    // Only one is made at a time; the memory of the others is not reserved yet.
    if (zygote === undefined && next !== null) continue;
    leftBytes -= neededBytes;
    if (zygote === undefined) next = candidate;
    else kept.add(zygote.id);
  }
  return { ends: made.map(({ id }) => id).filter((id) => !kept.has(id)), next };
}
