// The data of pools: what a pool has, what a replica asks for, and what it then gets. No code.

/** The GPUs or other accelerators of one type in a pool. */
export type PoolGpus = {
  readonly compute: string;
  /** GB of 10^9 bytes; 0 when unknown. */
  readonly memoryGb: number;
  readonly count: number;
  /** How many of them answer. */
  readonly usable: number;
};

/** Machine resources at one location. */
export type Pool = {
  readonly name: string;
  /** Null: it represents every provider. */
  readonly provider: string | null;
  /** Null: it represents every region. */
  readonly region: string | null;
  /**
   * `interruptible`: its machines can disappear at any time, so that no protected replica runs
   * there.
   */
  readonly tier: "protected" | "interruptible";
  /** True when replicas without a GPU may run there. */
  readonly takesCpu: boolean;
  readonly cores: number;
  readonly memoryGb: number;
  /** The factor by which claims may exceed the pool's cores and memory. */
  readonly overcommit: number;
  /** Each compute type at most once. */
  readonly gpus: readonly PoolGpus[];
};

/** What one replica asks for. */
export type PoolRequest = {
  readonly compute: string;
  readonly gpuCount: number;
  readonly cpuCores: number;
  readonly memoryGb: number;
  readonly tier: string;
  /** Null: any provider. */
  readonly provider: string | null;
  /** Null or `anyRegion`: any region. */
  readonly region: string | null;
};

/**
 * What a replica has of a pool. `gpuCount` leaves out its GPUs that do not answer: these do not
 * become free when the replica ends.
 */
export type PoolClaim = Omit<PoolRequest, "provider" | "region"> & { readonly pool: string };

/**
 * The measured use of one or more GPUs: the mean of their utilizations, from 0 to 1, and the sum of
 * the memory in use.
 */
export type GpuUse = { readonly utilization: number; readonly memoryBytes: number };

/** The name that stands for all regions. */
export const anyRegion = "global";
