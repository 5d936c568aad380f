// From a release to what a driver starts: pure. Which compute type a replica gets, and what to say when none is to be had.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { ReplicaSpec } from "#drivers/driver.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { NewReplicaRow, StoredRelease } from "./replica-rows.ts";

export type ComputeChoice =
  | { readonly ok: true; readonly compute: string }
  | { readonly ok: false; readonly reason: string };

const otherWays =
  "Ask for a compute type that it has; to try the app without, the operator can set SLIPWAY_SIMULATE_COMPUTE=true.";

/** The first type of the app's list that is available. */
export function chooseCompute(settings: Pick<AppSettings, "compute">, available: readonly string[]): ComputeChoice {
  const compute = settings.compute.find((type) => available.includes(type));
  if (compute !== undefined) return { ok: true, compute };
  const here = available.length === 0 ? "none" : `only ${available.join(", ")}`;
  return {
    ok: false,
    reason: `The app asks for compute ${settings.compute.join(" or ")}, but this platform has ${here}. ${otherWays}`,
  };
}

/** What the driver is asked to run. */
export function replicaSpec(
  release: StoredRelease,
  given: { replicaId: ReplicaId; compute: string; environment: Readonly<Record<string, string | Secret>> },
): ReplicaSpec {
  const { settings } = release;
  return {
    replicaId: given.replicaId,
    projectId: release.projectId,
    appId: release.appId,
    appName: settings.name,
    buildId: release.buildId,
    releaseId: release.releaseId,
    artifact: release.artifact,
    runtime: settings.runtime,
    entrypoint: settings.entrypoint,
    port: settings.port,
    environment: given.environment,
    compute: given.compute,
    gpuCount: gpuCountOf(settings, given.compute),
    cpuCores: settings.cpu,
    memoryGb: settings.memory,
    concurrency: settings.replicaConcurrency,
    graceSeconds: settings.responseGracePeriodSeconds,
  };
}

/** What usage is computed from. */
export function replicaRow(
  release: Omit<StoredRelease, "artifact">,
  given: { replicaId: ReplicaId; compute: string; driver: string; restarts: number; createdAt: number },
): NewReplicaRow {
  const { settings } = release;
  return {
    replicaId: given.replicaId,
    projectId: release.projectId,
    appId: release.appId,
    releaseId: release.releaseId,
    buildId: release.buildId,
    driver: given.driver,
    compute: given.compute,
    computeTier: settings.computeTier,
    gpuCount: gpuCountOf(settings, given.compute),
    cpuCores: settings.cpu,
    memoryGb: settings.memory,
    provider: settings.provider,
    region: settings.region,
    restarts: given.restarts,
    createdAt: given.createdAt,
  };
}

/** GPUs of a replica; the setting is ignored on CPU. */
export function gpuCountOf(settings: Pick<AppSettings, "gpuCount">, compute: string): number {
  return compute === "CPU" ? 0 : settings.gpuCount;
}
