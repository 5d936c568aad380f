// The answers about hardware: `GET /v2/hardware` lists the pools of the driver with the prices of
// billing, and another answer shows operators the use of the pools and the size of the database. A
// part of `platform.ts`.
import type { z } from "zod";
import { appFields } from "@slipway/contract/app-fields.ts";
import type { hardwareAnswer, platformAnswer } from "@slipway/contract/hardware-routes.ts";
import type { PriceOf } from "#billing/usage/prices.ts";
import { computeOf, freeGpus, gpusOf } from "#drivers/pools/choose-pool.ts";
import type { Driver } from "#drivers/driver.ts";
import { replicaMaxOf } from "#drivers/pools/fit.ts";
import type { Pool } from "#drivers/pools/pool.ts";
import { readDatabaseBytes, readTableSizes } from "#metrics/table-sizes-store.ts";
import { readAppsOf, type AppOfReplica } from "#scheduler/replica-store.ts";
import type { Db } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import slipway from "#package.json" with { type: "json" };

type PlatformAnswer = z.infer<typeof platformAnswer>;

type Store = Pick<Foundation, "db" | "clock">;

/** The maximum number of tables that are shown. The largest tables are chosen. */
const tablesMax = 10;

/** Functions that return the answers, from current data. */
export function hardwareParts(
  driver: Pick<Driver, "name" | "pools">,
  priceOf: PriceOf,
  { db, clock }: Store,
) {
  const since = new Date(clock.now()).toISOString();
  const bytesAtStart = readDatabaseBytes(db);
  // If this read fails, the answer for operators, which awaits it, reports the failure.
  bytesAtStart.catch(() => undefined);
  return {
    hardware: () => hardwareOf(driver.pools.all, priceOf),
    operatorPlatform: async () => {
      const [pools, bytes, sizes, bytesThen] = await Promise.all([
        poolsOf(driver, db),
        readDatabaseBytes(db),
        readTableSizes(db),
        bytesAtStart,
      ]);
      const tables = [...sizes]
        .map(([name, size]) => ({ name, bytes: size }))
        .toSorted((left, right) => right.bytes - left.bytes)
        .slice(0, tablesMax);
      const database = { bytes, tables, since, bytesThen };
      return {
        version: slipway.version,
        driver: driver.name,
        database,
        pools,
      } satisfies PlatformAnswer;
    },
  };
}

/** One item for each pool and compute type, in the order of the pools. */
function hardwareOf(pools: readonly Pool[], priceOf: PriceOf): z.infer<typeof hardwareAnswer> {
  const items = pools.flatMap((pool) =>
    computeOf([pool]).map((compute) => {
      const { name, provider, region, tier } = pool;
      const { cores, memoryGb } = replicaMaxOf(pool);
      const gpus = gpusOf(pool, compute);
      return {
        compute,
        pool: name,
        provider,
        region,
        tier,
        maxCpu: cores,
        maxMemoryGb: memoryGb,
        maxGpuCount: Math.min(gpus.usable, appFields.gpuCount.max),
        // 0 becomes null: the pool has no such GPUs, or their memory is unknown.
        gpuMemoryGb: gpus.memoryGb || null,
        price: priceOf({ compute, provider, region }),
      };
    }),
  );
  return { items };
}

/** The pools with their free resources, and the apps whose replicas are there. */
async function poolsOf(driver: Pick<Driver, "pools">, db: Db): Promise<PlatformAnswer["pools"]> {
  const claims = [...driver.pools.claims];
  const owners = await readAppsOf(
    db,
    claims.map(([replicaId]) => replicaId),
  );
  return driver.pools.free.map((freePool) => {
    // `cores` and `memory` are what is free, in thousandths of a core and of a GB.
    const { pool, cores, memory } = freePool;
    const poolClaims = claims.filter(([, claim]) => claim.pool === pool.name);
    return {
      name: pool.name,
      provider: pool.provider,
      region: pool.region,
      tier: pool.tier,
      cores: pool.cores * pool.overcommit,
      freeCores: cores / 1000,
      memoryGb: pool.memoryGb * pool.overcommit,
      freeMemoryGb: memory / 1000,
      gpus: pool.gpus.map(({ compute, count, usable }) => ({
        compute,
        count,
        usable,
        free: freeGpus(freePool, compute),
      })),
      replicas: poolClaims.length,
      apps: appsOf(poolClaims.map(([replicaId]) => owners.get(replicaId))),
    };
  });
}

/**
 * Each app once: first the app with the most replicas, and apps with the same number by name. A
 * replica of a deleted app has no owner.
 */
function appsOf(
  owners: readonly (AppOfReplica | undefined)[],
): PlatformAnswer["pools"][number]["apps"] {
  const byApp = Map.groupBy(
    owners.filter((owner) => owner !== undefined),
    ({ appId }) => appId,
  );
  const apps: (AppOfReplica & { readonly replicas: number })[] = [];
  // A group has one owner for each replica of its app, and at least one.
  for (const [owner, ...others] of byApp.values()) {
    if (owner !== undefined) apps.push({ ...owner, replicas: 1 + others.length });
  }
  return apps.toSorted(
    (left, right) => right.replicas - left.replicas || left.name.localeCompare(right.name),
  );
}
