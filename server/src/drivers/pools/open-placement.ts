// Opens the pools of a driver whose replicas run on this machine: the pools of the operator's file,
// or else the machine itself, with the GPUs that are found.
import { isDeepStrictEqual } from "node:util";
import { availableParallelism, totalmem } from "node:os";
import { computeTypes } from "@slipway/contract/app-choices.ts";
import type { Clock } from "#lib/clock.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import { readOperatorFile } from "#lib/operator-file.ts";
import { GpuWatch, lookEveryGpuMs } from "./gpu-watch.ts";
import { machinePool, simulated } from "./machine-pool.ts";
import { Placement } from "./placement.ts";
import type { CardPool, Gpu } from "./cards.ts";
import { readPoolFile, type ListedPool } from "./pool-file.ts";

export type PoolSettings = {
  /** Relative to the working directory of the platform. Null: the machine is the only pool. */
  readonly poolsFile: string | null;
  /** The overcommit of the machine's pool, used when there is no pools file. */
  readonly overcommit: number;
  /** True when apps that ask for missing accelerators run on the CPU. */
  readonly simulateCompute: boolean;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  /** The environment in which nvidia-smi is found and started. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
};

type PlacementParts = { readonly log: Log; readonly clock: Clock; readonly lifecycle: Lifecycle };

/**
 * Opens the pools. Resolves after the first look for GPUs; more looks follow until the platform
 * ends. Throws `CannotStart` for an invalid file.
 */
export async function openPlacement(
  settings: PoolSettings,
  parts: PlacementParts,
): Promise<Placement> {
  const { log, clock, lifecycle } = parts;
  const { poolsFile, simulateCompute, providers } = settings;
  if (simulateCompute) {
    log.warn(
      "SLIPWAY_SIMULATE_COMPUTE is on: apps that ask for a GPU or another accelerator run on the CPU",
    );
  }
  const listed =
    poolsFile === null
      ? null
      : readOperatorFile("SLIPWAY_POOLS_FILE", poolsFile, (text) => readPoolFile(text, providers));
  const watch = new GpuWatch({ toolEnvironment: settings.toolEnvironment, clock, log });
  const poolsNow = (): CardPool[] =>
    listed === null
      ? [thisMachine(settings, watch.gpus)]
      : listedPools(listed, settings, watch.gpus);
  const placement = new Placement([]);
  const look = async (signal: AbortSignal): Promise<void> => {
    await watch.look(signal);
    placement.setGpuUse(watch.use);
    const pools = poolsNow();
    if (!isDeepStrictEqual(pools, placement.pools)) placement.setPools(pools);
  };
  await look(new AbortController().signal);
  for (const { name: pool, gpus } of placement.pools) {
    const missing = gpus.filter(({ isUsable }) => !isUsable);
    const compute = [...new Set(missing.map((gpu) => gpu.compute))];
    if (missing.length > 0)
      log.warn(
        { pool, compute, missing: missing.length },
        "GPUs of this pool were not found here: apps wait for them",
      );
  }
  new Loop({ name: "GPUs", intervalMs: lookEveryGpuMs, turn: look, clock, log }).startWithin(
    lifecycle,
  );
  return placement;
}

function thisMachine(
  { overcommit, simulateCompute }: PoolSettings,
  gpus: readonly Gpu[],
): CardPool {
  // The value is 0 or huge when no cgroup limits the memory.
  const constrained = process.constrainedMemory();
  const memoryBytes = constrained > 0 ? Math.min(totalmem(), constrained) : totalmem();
  const cores = availableParallelism();
  return machinePool({ cores, memoryBytes, overcommit, gpus, isSimulating: simulateCompute });
}

/**
 * The pools of the file, with the cards of this machine. A listed card that is not found still
 * counts for what fits into the pool, but is usable only when compute is simulated.
 */
function listedPools(
  listed: readonly ListedPool[],
  settings: PoolSettings,
  found: readonly Gpu[],
): CardPool[] {
  const unassigned = new Map(
    computeTypes.map((type) => [type as string, found.filter(({ compute }) => compute === type)]),
  );
  return listed.map((pool) => ({
    ...pool,
    gpus: pool.gpus.flatMap((listedGpus) => {
      // `splice` takes the cards out of the list, so that no other pool gets them.
      const cards = (unassigned.get(listedGpus.compute) ?? []).splice(0, listedGpus.count);
      const notFound = simulated(pool.name, listedGpus).slice(cards.length);
      return [...cards, ...notFound.map((gpu) => ({ ...gpu, isUsable: settings.simulateCompute }))];
    }),
  }));
}
