// Apps of the simulation: one whose replicas keep the answers of runs, one whose replicas do not.
import type { AppRoute } from "#apps/routes.ts";
import type { AppId, BuildId, ProjectId, ReleaseId } from "#lib/ids.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import type { Seeded } from "#test/support/seeded.ts";
import type { SimApp } from "./replicas.ts";
import { firstRoute } from "#test/support/first-route.ts";

/** An app with its route. */
export type RoutedApp = SimApp & { readonly route: AppRoute };

/** Whose all apps are. */
export const projectId = "p-00000001" as ProjectId;

/**
 * An app with a live release; what decides how many runs are taken, and how long they may take, is
 * drawn.
 */
export function newApp(seeded: Seeded, keepsAnswers: boolean): RoutedApp {
  const appName = keepsAnswers ? "cortex" : "custom";
  const appId = `${projectId}-${appName}` as AppId;
  const id = `00000000-0000-4000-9000-00000000000${keepsAnswers ? 1 : 2}`;
  const graceMs = seeded.integer(4, 12) * 1_000;
  const settings = settingsWith({
    runtime: keepsAnswers ? "cortex" : "custom",
    maxReplicaCount: 2,
    replicaConcurrency: seeded.integer(1, 4),
    responseGracePeriodSeconds: graceMs / 1_000,
  });
  const live = { releaseId: id as ReleaseId, buildId: id as BuildId, settings };
  const route: AppRoute = {
    ...firstRoute,
    appId,
    projectId,
    appName,
    disableAuth: true,
    live,
    latestBuild: null,
  };
  return { appId, releaseId: live.releaseId, keepsAnswers, graceMs, route };
}
