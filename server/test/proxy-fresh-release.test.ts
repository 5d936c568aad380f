// A call that comes right after a release was promoted, before the table of routes has heard of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppRoute } from "#apps/routes.ts";
import { appIdOf, type BuildId, type ProjectId, type ReleaseId } from "#lib/ids.ts";
import { settingsWith } from "./support/app-settings.ts";
import { httpReplica, openProxyBed, projectId } from "./support/proxy-bed.ts";
import { firstRoute } from "./support/first-route.ts";

function routeTo(project: ProjectId, live: AppRoute["live"]): AppRoute {
  const app = {
    appId: appIdOf(project, "hello"),
    projectId: project,
    appName: "hello",
    disableAuth: false,
  };
  return { ...firstRoute, ...app, live, latestBuild: { status: "initializing", reason: null } };
}

test("a call of an app without a release looks once more before it is refused", async (t) => {
  const live: AppRoute["live"] = {
    releaseId: "00000000-0000-4000-8000-000000000001" as ReleaseId,
    buildId: "00000000-0000-4000-8000-000000000002" as BuildId,
    settings: settingsWith({ name: "hello" }),
  };
  let isPromoted = false;
  let known = routeTo(projectId, null);
  const refresh = (): Promise<void> => {
    if (isPromoted) known = routeTo(projectId, live);
    return Promise.resolve();
  };
  const bed = await openProxyBed(t, {
    options: { routes: { find: () => known, byAppId: () => known, refresh } },
  });
  bed.setReplicas(await httpReplica(t, (_request, response) => response.end("served")));
  const early = await bed.call("/run");
  assert.equal(early.status, 503);
  assert.match(((await early.json()) as { message: string }).message, /initializing/);
  isPromoted = true;
  const call = await bed.call("/run");
  assert.equal(await call.text(), "served");
});
