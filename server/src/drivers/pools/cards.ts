// The single GPUs of a pool, and which of them a replica has. Needed only by a driver that assigns
// the GPUs of its machine; everybody else just counts GPUs.
import type { Pool, PoolClaim, PoolGpus } from "./pool.ts";

/** A single GPU or other accelerator. */
export type Gpu = {
  /** The UUID of the card, or a name made up for one that is simulated or was never found. */
  readonly id: string;
  readonly compute: string;
  /** GB of 10^9 bytes; 0 when unknown. */
  readonly memoryGb: number;
  /** False while the card does not answer. A simulated card is always usable. */
  readonly isUsable: boolean;
};

/** A pool with its cards. */
export type CardPool = Omit<Pool, "gpus"> & { readonly gpus: readonly Gpu[] };

/**
 * A replica's claim of a pool, with its cards. The driver stores it with the replica for the next
 * platform process.
 */
export type CardClaim = Omit<PoolClaim, "gpuCount"> & {
  /** The ids of its GPUs. */
  readonly gpus: readonly string[];
};

/** The pool with the number of cards of each type instead of the cards. */
export function countCards(pool: CardPool): Pool {
  const byType = Map.groupBy(pool.gpus, ({ compute }) => compute);
  const gpus = Array.from(byType, ([compute, cards]): PoolGpus => {
    const usable = cards.filter(({ isUsable }) => isUsable);
    // The memory of a card that does not answer may be unknown.
    const example = usable[0] ?? cards[0];
    const memoryGb = example?.memoryGb ?? 0;
    return { compute, memoryGb, count: cards.length, usable: usable.length };
  });
  return { ...pool, gpus };
}

/** The cards of the pool that answer and that no replica has. */
export function freeCards(pool: CardPool, taken: ReadonlySet<string>): readonly Gpu[] {
  return pool.gpus.filter(({ id, isUsable }) => isUsable && !taken.has(id));
}
