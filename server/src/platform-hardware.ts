// What `GET /v2/hardware` lists: the pools of the driver with the prices of billing. A part of `platform.ts`.
import type { z } from "zod";
import { appFields } from "@slipway/contract/app-fields.ts";
import type { hardwareAnswer } from "@slipway/contract/hardware-routes.ts";
import type { PriceOf } from "#billing/usage/prices.ts";
import { computeOf, gpusOf } from "#drivers/pools/choose-pool.ts";
import { replicaMaxOf } from "#drivers/pools/fit.ts";
import type { Pool } from "#drivers/pools/pool.ts";

/** The answer, in the order of the pools. */
export function hardwareOf(pools: readonly Pool[], priceOf: PriceOf): z.infer<typeof hardwareAnswer> {
  const items = pools.flatMap((pool) =>
    computeOf([pool]).map((compute) => {
      const { name, provider, region, tier } = pool;
      const { cores, memoryGb } = replicaMaxOf(pool);
      const gpus = gpusOf(pool, compute);
      const usable = gpus.filter(({ isUsable }) => isUsable);
      return {
        ...{ compute, pool: name, provider, region, tier },
        ...{ maxCpu: cores, maxMemoryGb: memoryGb },
        maxGpuCount: Math.min(usable.length, appFields.gpuCount.max),
        gpuMemoryGb: (usable[0] ?? gpus[0])?.memoryGb || null,
        price: priceOf({ compute, provider, region }),
      };
    }),
  );
  return { items };
}
