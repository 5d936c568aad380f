// Route handlers for apps and their replicas, and the apps and replicas as the API shows them.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type * as containers from "@slipway/contract/container-answers.ts";
import { appStatusOf, type AppDetail, type CreatedApp } from "#apps/app.ts";
import type { AppWithState, ReplicaRow } from "#apps/app-store.ts";
import { must } from "#lib/assert.ts";
import { shownAppId, type AppId, type ProjectId } from "#lib/ids.ts";
import type { ReplicaUse } from "#scheduler/usage-sampler.ts";
import { appOf, projectOf, refOf, type Handlers } from "./call.ts";
import { showSettings } from "./settings.ts";
import { appEndpoint, appPage, buildLogUrl, buildPage, pageOfApp, type Urls } from "./urls.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for apps and their replicas. */
export function appHandlers(parts: HandlerParts) {
  const { apps, lifecycle, urls, limit, replicaUses, clock } = parts;
  const waitReason = (appId: AppId): string | null =>
    parts.waitReason(appId) ?? parts.buildWaitReason(appId) ?? null;
  const showContainers = async (
    rows: readonly ReplicaRow[],
  ): Promise<z.infer<typeof containers.containerList>> => {
    const uses = rows.length === 0 ? null : await replicaUses();
    return rows.map((replica) =>
      showContainer(replica, { now: clock.now(), use: uses?.get(replica.id) }),
    );
  };
  return {
    async createGitApp(call) {
      const projectId = projectOf(call);
      const checked = apps.check(call.body);
      limit.take(projectId);
      const created = await apps.create({ projectId, checked, by: call.by });
      return showCreated(projectId, created, urls());
    },
    async listApps(call) {
      return (await apps.list(projectOf(call))).map((app) => ({
        ...showApp(app),
        waitReason: waitReason(app.id),
      }));
    },
    async getApp(call) {
      const projectId = projectOf(call);
      const appId = appOf(call);
      const app = await apps.get(projectId, appId);
      return { ...showDetail(projectId, app, urls()), waitReason: waitReason(appId) };
    },
    async stopApp(call) {
      await lifecycle.stop({ ...refOf(call), by: call.by });
      return {
        message:
          "The app is stopped: calls are refused, those that run may end, and async runs wait.",
      };
    },
    async startApp(call) {
      await lifecycle.start({ ...refOf(call), by: call.by });
      return { message: "The app is started: it takes calls again." };
    },
    async restartApp(call) {
      await lifecycle.restart({ ...refOf(call), by: call.by });
      return {
        message:
          "The app is restarting: its replicas are replaced step by step, while others serve.",
      };
    },
    async deleteApp(call) {
      await lifecycle.delete({ ...refOf(call), by: call.by });
      return {
        message: "Deleted. Running calls finish first; the name can be reused.",
      };
    },
    async listContainers(call) {
      return await showContainers(await apps.replicas(projectOf(call), appOf(call)));
    },
    async listEndedContainers(call) {
      return (await apps.endedReplicas(projectOf(call), appOf(call))).map((row) => ({
        containerId: row.id,
        buildId: row.build_id,
        createdAt: row.created_at.toISOString(),
        startedAt: row.started_at?.toISOString() ?? null,
        endedAt: (row.stopped_at ?? row.created_at).toISOString(),
        startedFor: row.is_trial ? "trial" : "calls",
        reason: row.reason,
        exitCode: row.exit_code,
      })) satisfies z.infer<typeof containers.endedContainerList>;
    },
    async listProjectContainers(call) {
      return await showContainers(await apps.replicasOf(projectOf(call)));
    },
  } satisfies Handlers;
}

function showApp(app: AppWithState): Omit<z.infer<typeof answers.appList>[number], "waitReason"> {
  return {
    id: shownAppId(app.id),
    name: app.name,
    status: appStatusOf(app),
    createdAt: app.created_at.toISOString(),
    updatedAt: app.updated_at.toISOString(),
    autoDeployPausedAt: app.auto_deploy_paused_at?.toISOString() ?? null,
    autoDeployPausedReason: app.auto_deploy_paused_reason,
    lastBuildStatus: app.latest_status,
    lastBuildReason: app.latest_reason,
    lastBuildEndedAt: app.latest_ended_at?.toISOString() ?? null,
    latestBuildId: app.latest_build_id,
    liveRelease: app.live_release,
  };
}

/** The answer to a request that creates an app. */
export function showCreated(
  projectId: ProjectId,
  created: CreatedApp,
  urls: Urls,
): z.infer<typeof answers.createdApp> {
  const build = { ...created, projectId };
  return {
    appId: created.appId,
    appUrl: appPage(urls, build),
    buildId: created.buildId,
    dashboardUrl: buildPage(urls, build),
    internalEndpoint: appEndpoint(urls, projectId, created.appName),
    logUrl: buildLogUrl(urls, build),
    projectId,
    status: created.status,
  };
}

type Detail = z.infer<typeof answers.appDetail>;

function showDetail(projectId: ProjectId, app: AppDetail, urls: Urls): Omit<Detail, "waitReason"> {
  const { settings } = app;
  return {
    ...showApp(app),
    projectId,
    hardware: must(settings.compute[0], "an app has a compute type"),
    cpu: String(settings.cpu),
    memory: String(settings.memory),
    gpuCount: String(settings.gpuCount),
    cooldownPeriodSeconds: String(settings.cooldownPeriodSeconds),
    minReplicaCount: String(settings.minReplicaCount),
    maxReplicaCount: String(settings.maxReplicaCount),
    replicaConcurrency: String(settings.replicaConcurrency),
    responseGracePeriodSeconds: String(settings.responseGracePeriodSeconds),
    runtime: settings.runtime,
    disableAuth: settings.disableAuth,
    gitRepo: settings.gitRepo,
    gitBranch: settings.gitBranch,
    gitPath: settings.gitPath,
    internalEndpoint: appEndpoint(urls, projectId, app.name),
    // Browsers send no token when they open a page, so only an app without authentication has one.
    pageUrl:
      settings.runtime === "custom" && settings.disableAuth
        ? pageOfApp(urls, projectId, app.name)
        : null,
    liveBuildId: app.live_build_id,
    settings: showSettings(app),
  };
}

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
  // A Unix socket has no host.
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
