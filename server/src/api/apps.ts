// Route handlers for apps, and the apps as the API shows them.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import { appStatusOf, type AppDetail, type CreatedApp } from "#apps/app.ts";
import type { AppWithState } from "#apps/app-store.ts";
import { must } from "#lib/assert.ts";
import { shownAppId, type AppId, type ProjectId } from "#lib/ids.ts";
import { appOf, projectOf, refOf, type Handlers } from "./call.ts";
import { showSettings } from "./settings.ts";
import { appEndpoint, appPage, buildLogUrl, buildPage, pageOfApp, type Urls } from "./urls.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for apps. */
export function appHandlers(parts: HandlerParts) {
  const { apps, lifecycle, urls, limit } = parts;
  const waitReason = (appId: AppId): string | null =>
    parts.waitReason(appId) ?? parts.buildWaitReason(appId) ?? null;
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

/** An app with its settings. Published clients read most numbers as texts. */
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
    // Browsers send no token when they open a page, so only an app without authentication has a
    // page.
    pageUrl:
      settings.runtime === "custom" && settings.disableAuth
        ? pageOfApp(urls, projectId, app.name)
        : null,
    liveBuildId: app.live_build_id,
    settings: showSettings(app),
  };
}
