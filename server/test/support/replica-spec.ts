// Specs of replicas for tests of drivers.
import type { ReplicaSpec } from "#drivers/driver.ts";
import { appIdOf, newBuildId, newReleaseId, newReplicaId, type ProjectId } from "#lib/ids.ts";

/** A cortex app on one CPU with a new replica id; `given` overrides fields. */
export function replicaSpec(
  given: Partial<ReplicaSpec> & Pick<ReplicaSpec, "artifact">,
): ReplicaSpec {
  const { projectId = "p-0123abcd" as ProjectId } = given;
  return {
    replicaId: newReplicaId("driven"),
    projectId,
    appId: appIdOf(projectId, "driven"),
    appName: "driven",
    buildId: newBuildId(),
    releaseId: newReleaseId(),
    runtime: "cortex",
    containerRuntime: null,
    entrypoint: [],
    port: 8000,
    environment: {},
    compute: "CPU",
    gpuCount: 0,
    cpuCores: 1,
    memoryGb: 1,
    tier: "interruptible",
    region: null,
    provider: null,
    storage: projectId,
    storagePath: null,
    concurrency: 1,
    graceSeconds: 5,
    egressCidrs: null,
    keepsPathPrefix: false,
    logLevel: "INFO",
    ...given,
  };
}
