// Derives from a release what a driver starts: pure. Selects the compute type of a replica, or explains why none is available.
import { missingCompute } from "@slipway/contract/advice.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Driver, ReplicaSpec, Resources } from "#drivers/driver.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { NewReplicaRow, StoredRelease } from "./replica-rows.ts";

export type ComputeChoice =
  | { readonly ok: true; readonly compute: string }
  | {
      readonly ok: false;
      /** Capacity becomes available when other replicas end. */
      readonly isFull: boolean;
      readonly reason: string;
    };

/** The first type in the app's list with free capacity. */
export function chooseCompute(
  settings: Pick<AppSettings, "compute" | "gpuCount" | "cpu" | "memory">,
  driver: Pick<Driver, "capacity" | "capabilities">,
): ComputeChoice {
  const asked = settings.compute.map((type) => [type, driver.capacity(resourcesOf(settings, type))] as const);
  const [free] = asked.find(([, capacity]) => capacity === "now") ?? [];
  if (free !== undefined) return { ok: true, compute: free };
  const types = settings.compute.join(" or ");
  if (asked.some(([, capacity]) => capacity === "later")) {
    const reason = `All of the platform's ${types} is in use; a replica starts when some is free again.`;
    return { ok: false, isFull: true, reason };
  }
  const reason = missingCompute(settings.compute, driver.capabilities.compute);
  return { ok: false, isFull: false, reason };
}

/** The driver's input for a start. */
export function replicaSpec(
  release: StoredRelease,
  given: { replicaId: ReplicaId; compute: string; environment: Readonly<Record<string, string | Secret>> },
): ReplicaSpec {
  const { projectId, appId, buildId, releaseId, artifact, settings } = release;
  const { runtime, entrypoint, port, region, provider, logLevel } = settings;
  return {
    ...{ ...given, projectId, appId, appName: settings.name, buildId, releaseId, artifact },
    ...{ runtime, entrypoint, port, ...resourcesOf(settings, given.compute), region, provider, logLevel },
    tier: settings.computeTier,
    storage: projectId,
    concurrency: settings.replicaConcurrency,
    graceSeconds: settings.responseGracePeriodSeconds,
  };
}

/** The basis for computing usage. */
export function replicaRow(
  release: Omit<StoredRelease, "artifact">,
  given: Pick<NewReplicaRow, "replicaId" | "compute" | "backend" | "isTrial" | "restarts" | "createdAt">,
): NewReplicaRow {
  const { projectId, appId, releaseId, buildId, settings } = release;
  const { computeTier, provider, region } = settings;
  const ofSettings = { ...resourcesOf(settings, given.compute), computeTier, provider, region };
  return { ...given, projectId, appId, releaseId, buildId, ...ofSettings };
}

function resourcesOf(settings: Pick<AppSettings, "gpuCount" | "cpu" | "memory">, compute: string): Resources {
  return { compute, gpuCount: gpuCountOf(settings, compute), cpuCores: settings.cpu, memoryGb: settings.memory };
}

/** Number of GPUs of a replica; CPU ignores the setting. */
export function gpuCountOf(settings: Pick<AppSettings, "gpuCount">, compute: string): number {
  return compute === "CPU" ? 0 : settings.gpuCount;
}
