// Apps that a person has stopped: they have no replicas, and their calls are refused.
import type { AppRoute, Routes } from "#apps/routes.ts";
import { Fault } from "#lib/fault.ts";
import type { Allowance } from "./allowance.ts";

/**
 * The fault for calls of an app that a person has stopped; null: nobody has. Called for each call,
 * so it allocates only for stopped apps.
 */
export function stopOfPerson({ isStopped, projectId, appName }: AppRoute): Fault | null {
  if (isStopped !== true) return null;
  const path = `/v2/projects/${projectId}/apps/${projectId}-${appName}/start`;
  return new Fault(
    "app_stopped",
    `The app is stopped. It takes calls again when somebody starts it: POST ${path}.`,
  );
}

/**
 * An allowance that also stops the apps that a person has stopped. If a budget has stopped the same
 * app, the person's stop is the reason given, since nothing helps until a person starts the app.
 */
export function withStoppedApps(allowance: Allowance, routes: Pick<Routes, "byAppId">): Allowance {
  return {
    ...allowance,
    stopOf(projectId, appId) {
      const route = routes.byAppId(appId);
      const fault = route === undefined ? null : stopOfPerson(route);
      if (fault === null) return allowance.stopOf(projectId, appId);
      return { code: "app_stopped", reason: fault.message };
    },
  };
}
