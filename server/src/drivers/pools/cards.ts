// GPUs one by one, and which of them a replica has: what only a driver knows that owns the machine.
import type { Pool, PoolClaim, PoolGpus } from "./pool.ts";

/** A single GPU or other accelerator. */
export type Gpu = {
  /** The UUID of the card, or a name made up for one that is simulated or was never found. */
  readonly id: string;
  readonly compute: string;
  /** GB of 10^9 bytes; 0 when unknown. */
  readonly memoryGb: number;
  /** False while the card does not answer. A simulated one always does. */
  readonly isUsable: boolean;
};

/** A pool with its cards. */
export type CardPool = Omit<Pool, "gpus"> & { readonly gpus: readonly Gpu[] };

/**
 * What a replica has of a pool, with its cards. Stored by the driver with the replica, so that the
 * next process of the platform knows it.
 */
export type CardClaim = Omit<PoolClaim, "gpuCount"> & {
  /** The ids of its GPUs. */
  readonly gpus: readonly string[];
};

/** The pool as others see it: how many cards of each type there are. */
export function countCards(pool: CardPool): Pool {
  const byType = Map.groupBy(pool.gpus, ({ compute }) => compute);
  const gpus = Array.from(byType, ([compute, cards]): PoolGpus => {
    const usable = cards.filter(({ isUsable }) => isUsable);
    const memoryGb = (usable[0] ?? cards[0])?.memoryGb ?? 0;
    return { compute, memoryGb, count: cards.length, usable: usable.length };
  });
  return { ...pool, gpus };
}

/** The cards of the pool that answer and that no replica has. */
export function freeCards(pool: CardPool, taken: ReadonlySet<string>): readonly Gpu[] {
  return pool.gpus.filter(({ id, isUsable }) => isUsable && !taken.has(id));
}
