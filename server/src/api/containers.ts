// Route handlers for the replicas of apps, which the API calls containers.
import type { z } from "zod";
import type * as containers from "@slipway/contract/container-answers.ts";
import type { ReplicaRow } from "#apps/app-store.ts";
import { shownAppId } from "#lib/ids.ts";
import type { ReplicaUse } from "#scheduler/usage-sampler.ts";
import { appOf, projectOf, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for the replicas of apps. */
export function containerHandlers({ apps, replicaUses, clock }: HandlerParts) {
  const showAll = async (
    rows: readonly ReplicaRow[],
  ): Promise<z.infer<typeof containers.containerList>> => {
    const uses = rows.length === 0 ? null : await replicaUses();
    return rows.map((replica) =>
      showContainer(replica, { now: clock.now(), use: uses?.get(replica.id) }),
    );
  };
  return {
    async listContainers(call) {
      return await showAll(await apps.replicas(projectOf(call), appOf(call)));
    },
    async listEndedContainers(call) {
      return (await apps.endedReplicas(projectOf(call), appOf(call))).map(showEnded);
    },
    async listProjectContainers(call) {
      return await showAll(await apps.replicasOf(projectOf(call)));
    },
  } satisfies Handlers;
}

/** The states of replicas in the words of published clients. */
const containerStates = {
  starting: "PENDING",
  ready: "RUNNING",
  draining: "TERMINATING",
  stopped: "TERMINATING",
} as const;

function showContainer(
  container: ReplicaRow,
  { now, use }: { readonly now: number; readonly use: ReplicaUse | undefined },
): z.infer<typeof containers.containerList>[number] {
  const startedAt = container.started_at;
  // The address is a host with its port, or a Unix socket, which has no host.
  const host = container.address?.startsWith("unix:")
    ? null
    : (container.address?.replace(/:\d+$/, "") ?? null);
  return {
    appId: shownAppId(container.app_id),
    projectId: container.project_id,
    containerId: container.id,
    containerState: containerStates[container.state],
    timestamp: container.created_at.toISOString(),
    containerStartTimestamp: startedAt?.toISOString() ?? null,
    // Only replicas that have not stopped are shown like this.
    containerTerminationTimestamp: null,
    containerRunningTimeMs: startedAt === null ? 0 : Math.max(0, now - startedAt.getTime()),
    // A replica that ends is replaced, never restarted.
    containerRestartCount: 0,
    hostIp: host,
    containerIp: host,
    hardwareProvider: container.provider,
    region: container.region,
    buildId: container.build_id,
    isTerminating: container.state === "draining",
    usage: use === undefined ? null : showUse(use),
  };
}

function showUse({
  cpuCores,
  memoryBytes,
  network,
  gpu,
}: ReplicaUse): z.infer<typeof containers.replicaUse> {
  return {
    cpuCores,
    memoryBytes,
    networkReceivedBytes: network?.receivedBytes ?? null,
    networkSentBytes: network?.sentBytes ?? null,
    gpuUtilization: gpu?.utilization ?? null,
    gpuMemoryBytes: gpu?.memoryBytes ?? null,
  };
}

function showEnded(row: ReplicaRow): z.infer<typeof containers.endedContainerList>[number] {
  return {
    containerId: row.id,
    buildId: row.build_id,
    createdAt: row.created_at.toISOString(),
    startedAt: row.started_at?.toISOString() ?? null,
    // A stopped replica always has the time of its stop, which the type does not know.
    endedAt: (row.stopped_at ?? row.created_at).toISOString(),
    startedFor: row.is_trial ? "trial" : "calls",
    reason: row.reason,
    exitCode: row.exit_code,
  };
}
