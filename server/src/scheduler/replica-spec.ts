// Derives from a release what a driver starts, and selects the compute type of a replica, or
// explains why none is available. Pure.
import { missingCompute } from "@slipway/contract/advice.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Driver, Outage, ReplicaSpec, Resources } from "#drivers/driver.ts";
import { computeOf, type PoolWish } from "#drivers/pools/choose-pool.ts";
import { whyNever, wishOf } from "#drivers/pools/fit.ts";
import type { PoolRequest } from "#drivers/pools/pool.ts";
import { whyWaiting } from "#drivers/pools/why-waiting.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { NewReplicaRow, StoredRelease } from "./replica-rows.ts";

export type ComputeChoice =
  | { readonly ok: true; readonly compute: string; readonly request: PoolRequest }
  | {
      readonly ok: false;
      /** `full`: a pool will have enough when other replicas end. `never`: no pool ever can. */
      readonly why: "full" | "never";
      readonly reason: string;
    }
  /** The driver's backend does not answer. */
  | ({ readonly ok: false; readonly why: "outage" } & Outage);

/**
 * Chooses the first type in the app's list with enough free capacity. `ahead`: what releases
 * earlier in the capacity line need.
 */
export function chooseCompute(
  settings: AppSettings,
  driver: Pick<Driver, "outage" | "pools">,
  ahead: readonly PoolWish[],
): ComputeChoice {
  const capacities = wishOf(settings).map(
    (request) => [request, driver.pools.capacity(request, ahead)] as const,
  );
  const [free] = capacities.find(([, capacity]) => capacity === "now") ?? [];
  const outage = driver.outage();
  // If no pool can ever have enough, the end of the outage changes nothing, and another reason is
  // given below.
  if (outage !== null && capacities.some(([, capacity]) => capacity !== "never"))
    return { ok: false, why: "outage", ...outage };
  if (free !== undefined) return { ok: true, compute: free.compute, request: free };
  if (capacities.some(([, capacity]) => capacity === "later")) {
    return {
      ok: false,
      why: "full",
      // It is computed on demand, since most turns do not read it.
      get reason() {
        return whyWaiting(driver.pools.free, wishOf(settings), ahead);
      },
    };
  }
  const reason =
    whyNever(driver.pools.all, settings) ??
    missingCompute(settings.compute, computeOf(driver.pools.all));
  return { ok: false, why: "never", reason };
}

/** The driver's input for a start. */
export function replicaSpec(
  release: StoredRelease,
  start: {
    replicaId: ReplicaId;
    compute: string;
    environment: Readonly<Record<string, string | Secret>>;
  },
): ReplicaSpec {
  const { projectId, appId, buildId, releaseId, artifact, settings } = release;
  const { runtime, containerRuntime, entrypoint, port, region, provider, logLevel, egressCidrs } =
    settings;
  return {
    ...start,
    projectId,
    appId,
    appName: settings.name,
    buildId,
    releaseId,
    artifact,
    runtime,
    containerRuntime,
    entrypoint,
    port,
    ...resourcesOf(settings, start.compute),
    region,
    provider,
    logLevel,
    egressCidrs,
    keepsPathPrefix: settings.keepPathPrefix,
    tier: settings.computeTier,
    storage: projectId,
    storagePath: settings.storagePath,
    concurrency: settings.replicaConcurrency,
    graceSeconds: settings.responseGracePeriodSeconds,
  };
}

type ReplicaIds = Pick<NewReplicaRow, "projectId" | "appId" | "releaseId" | "buildId">;

/** The row from which usage is computed. */
export function replicaRow(
  release: Omit<StoredRelease, "artifact">,
  start: Omit<NewReplicaRow, keyof Resources | keyof ReplicaIds | "computeTier"> & {
    readonly compute: string;
  },
): NewReplicaRow {
  const { projectId, appId, releaseId, buildId, settings } = release;
  const { computeTier } = settings;
  return {
    ...start,
    projectId,
    appId,
    releaseId,
    buildId,
    ...resourcesOf(settings, start.compute),
    computeTier,
  };
}

function resourcesOf(
  settings: Pick<AppSettings, "gpuCount" | "cpu" | "memory">,
  compute: string,
): Resources {
  return {
    compute,
    gpuCount: gpuCountOf(settings, compute),
    cpuCores: settings.cpu,
    memoryGb: settings.memory,
  };
}

/** Number of GPUs of a replica; with compute type CPU, the setting is ignored. */
export function gpuCountOf(settings: Pick<AppSettings, "gpuCount">, compute: string): number {
  return compute === "CPU" ? 0 : settings.gpuCount;
}
