// The pool of a platform without a pools file: the machine itself. Pure.
import { computeTypes } from "@slipway/contract/app-choices.ts";
import type { CardPool, Gpu } from "./cards.ts";

export type Machine = {
  readonly cores: number;
  readonly memoryBytes: number;
  readonly overcommit: number;
  readonly gpus: readonly Gpu[];
  /** True to add every compute type that the machine does not have. */
  readonly isSimulating: boolean;
};

/**
 * The part of the machine that is for apps; the rest is for the platform, its database and the
 * system.
 */
const appsShare = 0.9;
/** The number of simulated GPUs of one type: as many as a replica can ask for. */
const simulatedGpus = 16;

/** The machine as one pool, of every provider and region. */
export function machinePool({
  cores,
  memoryBytes,
  overcommit,
  gpus,
  isSimulating,
}: Machine): CardPool {
  const missing = isSimulating
    ? computeTypes.filter((type) => type !== "CPU" && !has(gpus, type))
    : [];
  return {
    name: "machine",
    provider: null,
    region: null,
    tier: "protected",
    takesCpu: true,
    overcommit,
    cores: roundedDown(cores * appsShare),
    memoryGb: roundedDown((memoryBytes / 1e9) * appsShare),
    gpus: [
      ...gpus,
      ...missing.flatMap((compute) => simulated("machine", { compute, count: simulatedGpus })),
    ],
  };
}

/** Accelerators of a pool that exist only in name: apps that have one run on the CPU. */
export function simulated(
  pool: string,
  {
    compute,
    count,
    memoryGb = 0,
  }: { readonly compute: string; readonly count: number; readonly memoryGb?: number },
): Gpu[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `${pool}/${compute}/${index}`,
    compute,
    memoryGb,
    isUsable: true,
  }));
}

function has(gpus: readonly Gpu[], type: string): boolean {
  return gpus.some(({ compute }) => compute === type);
}

/** Rounds down to thousandths. */
function roundedDown(amount: number): number {
  return Math.floor(amount * 1000) / 1000;
}
