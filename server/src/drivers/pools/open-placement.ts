// Opens the pools of a driver whose replicas run on this machine: those of the operator's file, or
// else the machine itself, with the GPUs that are found.
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
  /** How far the machine's processors are shared, where there is no pools file. */
  readonly overcommit: number;
  /** Apps that ask for accelerators that are not there run on the CPU. */
  readonly simulateCompute: boolean;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  readonly toolEnvironment: Readonly<Record<string, string>>;
};

type PlacementParts = { readonly log: Log; readonly clock: Clock; readonly lifecycle: Lifecycle };

/**
 * Resolves when GPUs have been looked for; they are looked at until the platform ends. Throws
 * `CannotStart` for an invalid file.
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
  // 0 or a huge number without a limit by cgroups.
  const constrained = process.constrainedMemory();
  const memoryBytes = constrained > 0 ? Math.min(totalmem(), constrained) : totalmem();
  const cores = availableParallelism();
  return machinePool({ cores, memoryBytes, overcommit, gpus, isSimulating: simulateCompute });
}

/**
 * The pools of the file with the cards that are there; one that is not found counts for what could
 * be, and is not given out.
 */
function listedPools(
  listed: readonly ListedPool[],
  settings: PoolSettings,
  found: readonly Gpu[],
): CardPool[] {
  const left = new Map(
    computeTypes.map((type) => [type as string, found.filter(({ compute }) => compute === type)]),
  );
  return listed.map((pool) => ({
    ...pool,
    gpus: pool.gpus.flatMap((wanted) => {
      const cards = (left.get(wanted.compute) ?? []).splice(0, wanted.count);
      const named = simulated(pool.name, wanted).slice(cards.length);
      return [...cards, ...named.map((gpu) => ({ ...gpu, isUsable: settings.simulateCompute }))];
    }),
  }));
}
