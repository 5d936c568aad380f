// What `GET /v2/hardware` lists: the pools of the driver with the prices of billing; and what operators see of them. A part of
// `platform.ts`.
import type { z } from "zod";
import { appFields } from "@slipway/contract/app-fields.ts";
import type { hardwareAnswer, platformAnswer } from "@slipway/contract/hardware-routes.ts";
import type { PriceOf } from "#billing/usage/prices.ts";
import { computeOf, gpusOf } from "#drivers/pools/choose-pool.ts";
import type { Driver } from "#drivers/driver.ts";
import { replicaMaxOf } from "#drivers/pools/fit.ts";
import type { Pool } from "#drivers/pools/pool.ts";
import slipway from "#package.json" with { type: "json" };

/** Both answers of the moment. */
export function hardwareParts(driver: Pick<Driver, "name" | "placement">, priceOf: PriceOf) {
  return { hardware: () => hardwareOf(driver.placement.pools, priceOf), operatorPlatform: () => platformOf(driver) };
}

/** In the order of the pools. */
function hardwareOf(pools: readonly Pool[], priceOf: PriceOf): z.infer<typeof hardwareAnswer> {
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

/** The pools with what is free of each. */
function platformOf({ name, placement }: Pick<Driver, "name" | "placement">): z.infer<typeof platformAnswer> {
  const claims = [...placement.claims.values()];
  const pools = placement.free.map(({ pool, cores, memory, gpus: free }) => ({
    ...{ name: pool.name, provider: pool.provider, region: pool.region, tier: pool.tier },
    ...{ cores: pool.cores * pool.overcommit, freeCores: cores / 1000 },
    ...{ memoryGb: pool.memoryGb * pool.overcommit, freeMemoryGb: memory / 1000 },
    gpus: [...new Set(pool.gpus.map(({ compute }) => compute))].map((compute) => {
      const all = gpusOf(pool, compute);
      const usable = all.filter(({ isUsable }) => isUsable).length;
      return { compute, count: all.length, usable, free: all.filter(({ id }) => free.includes(id)).length };
    }),
    replicas: claims.filter((claim) => claim.pool === pool.name).length,
  }));
  return { version: slipway.version, driver: name, pools };
}
