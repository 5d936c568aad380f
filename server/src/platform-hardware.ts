// What `GET /v2/hardware` lists, the pools of the driver with the prices of billing, and why an app cannot run there. A part of
// `platform.ts`.
import type { z } from "zod";
import type { hardwareAnswer } from "@slipway/contract/hardware-routes.ts";
import type { PriceOf } from "#billing/usage/prices.ts";
import { computeOf, gpusOf } from "#drivers/pools/choose-pool.ts";
import type { Pool } from "#drivers/pools/pool.ts";

/** The answer, in the order of the pools. */
export function hardwareOf(pools: readonly Pool[], priceOf: PriceOf): z.infer<typeof hardwareAnswer> {
  const items = pools.flatMap((pool) =>
    computeOf([pool]).map((compute) => {
      const { name, provider, region, tier, cores, memoryGb, overcommit } = pool;
      const gpus = gpusOf(pool, compute);
      return {
        ...{ compute, pool: name, provider, region, tier },
        ...{ maxCpu: rounded(cores * overcommit), maxMemoryGb: rounded(memoryGb * overcommit) },
        maxGpuCount: gpus.length,
        gpuMemoryGb: gpus[0]?.memoryGb || null,
        price: priceOf({ compute, provider, region }),
      };
    }),
  );
  return { items };
}

function rounded(amount: number): number {
  return Math.round(amount * 1000) / 1000;
}
