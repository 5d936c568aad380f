// Apps and their replicas.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type { Apps, AppDetail, AppView } from "#apps/app.ts";
import type { AppLifecycle } from "#apps/app-lifecycle.ts";
import type { Containers, ContainerView } from "#apps/containers.ts";
import { must } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { RateLimit } from "#lib/rate-limit.ts";
import { appOf, projectOf, type ApiCall, type Handler } from "./call.ts";
import { showSettings } from "./settings.ts";
import { appEndpoint, appPage, buildLogUrl, buildPage, type Urls } from "./urls.ts";

type Parts = {
  readonly apps: Apps;
  readonly lifecycle: AppLifecycle;
  readonly containers: Containers;
  readonly urls: () => Urls;
  readonly limit: RateLimit;
  /** Why the calls of an app wait; undefined: they do not. */
  readonly waitReason: (appId: AppId) => string | undefined;
  readonly clock: Clock;
};
type Ids =
  | "createGitApp"
  | "listApps"
  | "getApp"
  | "listContainers"
  | "stopApp"
  | "startApp"
  | "restartApp"
  | "deleteApp";

/** Route handlers for apps and their replicas. */
export function appHandlers(parts: Parts): Record<Ids, Handler> {
  const { apps, lifecycle, containers, urls, limit, waitReason, clock } = parts;
  return {
    async createGitApp(call) {
      const projectId = projectOf(call);
      const checked = apps.check(call.body);
      limit.take(projectId);
      const created = await apps.create({ projectId, checked, by: call.by });
      const place = { ...created, projectId };
      return {
        appId: created.appId,
        appUrl: appPage(urls(), place),
        buildId: created.buildId,
        dashboardUrl: buildPage(urls(), place),
        internalEndpoint: appEndpoint(urls(), projectId, created.appName),
        logUrl: buildLogUrl(urls(), place),
        projectId,
        status: created.status,
      } satisfies z.infer<typeof answers.createdApp>;
    },
    async listApps(call) {
      return (await apps.list(projectOf(call))).map(showApp);
    },
    async getApp(call) {
      const projectId = projectOf(call);
      const appId = appOf(call);
      const app = await apps.get(projectId, appId);
      return { ...showDetail(projectId, app, urls()), waitReason: waitReason(appId) ?? null };
    },
    async stopApp(call) {
      await lifecycle.stop({ ...refOf(call), by: call.by });
      return { message: "The app is stopped: calls are refused, those that run may end, and async runs wait." };
    },
    async startApp(call) {
      await lifecycle.start({ ...refOf(call), by: call.by });
      return { message: "The app is started: it takes calls again." };
    },
    async restartApp(call) {
      await lifecycle.restart({ ...refOf(call), by: call.by });
      return { message: "The app is restarting: its replicas are replaced step by step, while others serve." };
    },
    async deleteApp(call) {
      await lifecycle.delete({ ...refOf(call), by: call.by });
      return {
        message: "The app was deleted: its name is free, and everything of it is removed after its running calls.",
      };
    },
    async listContainers(call) {
      const now = clock.now();
      return (await containers.list(projectOf(call), appOf(call))).map((container) => showContainer(container, now));
    },
  };
}

function refOf(call: ApiCall): { readonly projectId: ProjectId; readonly appId: AppId } {
  return { projectId: projectOf(call), appId: appOf(call) };
}

function showApp(app: AppView): z.infer<typeof answers.appList>[number] {
  return {
    id: app.appId,
    name: app.name,
    status: app.status,
    createdAt: app.createdAt.toISOString(),
    updatedAt: app.updatedAt.toISOString(),
    autoDeployPausedAt: app.autoDeployPause?.at.toISOString() ?? null,
    autoDeployPausedReason: app.autoDeployPause?.reason ?? null,
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
    lastBuildStatus: app.latestBuild?.status ?? null,
    lastBuildReason: app.latestBuild?.reason ?? null,
    latestBuildId: app.latestBuild?.buildId ?? null,
    liveBuildId: app.liveBuildId,
    liveRelease: app.liveRelease,
    settings: showSettings(app),
  };
}

const containerStates = { starting: "PENDING", ready: "RUNNING", draining: "TERMINATING" } as const;

function showContainer(container: ContainerView, now: number): z.infer<typeof answers.containerList>[number] {
  const startedAt = container.startedAt;
  // A Unix socket has no host.
  const host = container.address?.startsWith("unix:") ? null : (container.address?.replace(/:\d+$/, "") ?? null);
  return {
    appId: container.appId,
    projectId: container.projectId,
    containerId: container.replicaId,
    containerState: containerStates[container.state],
    timestamp: container.createdAt.toISOString(),
    containerStartTimestamp: startedAt?.toISOString() ?? null,
    containerTerminationTimestamp: null,
    containerRunningTimeMs: startedAt === null ? 0 : Math.max(0, now - startedAt.getTime()),
    // A replica that ends is replaced, never restarted.
    containerRestartCount: 0,
    hostIp: host,
    containerIp: host,
    hardwareProvider: container.provider,
    region: container.region,
    buildId: container.buildId,
    isTerminating: container.state === "draining",
  };
}
