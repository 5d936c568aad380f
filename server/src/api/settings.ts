// Settings of apps: changing them, and showing them with their origins.
import { shownAppId } from "#lib/ids.ts";
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type { ChangedApp } from "#apps/settings-changes.ts";
import type { ShownSettings } from "#apps/shown-settings.ts";
import { appOf, projectOf, type Handlers } from "./call.ts";
import { buildLogUrl } from "./urls.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for settings of apps. */
export function settingsHandlers({ settingsChanges, urls, limit }: HandlerParts) {
  return {
    async updateApp(call) {
      const projectId = projectOf(call);
      const appId = appOf(call);
      const isDryRun = call.query["dryRun"] === true;
      // A change that makes a new release counts as a deployment.
      const admit = (): void => limit.take(projectId);
      const changed = await settingsChanges.change({
        projectId,
        appId,
        body: call.body,
        isDryRun,
        by: call.by,
        admit,
      });
      const { build } = changed;
      return {
        appId: shownAppId(appId),
        change: changed.need,
        changed: [...changed.changed],
        isDryRun,
        release: build?.releaseNumber ?? null,
        buildId: build?.buildId ?? null,
        logUrl: build === null ? null : buildLogUrl(urls(), { projectId, appId, ...build }),
        message: changeText(changed, isDryRun),
      } satisfies z.infer<typeof answers.changedApp>;
    },
  } satisfies Handlers;
}

type Answer = z.infer<typeof answers.appDetail>["settings"];

/** Each setting by its name: its value, where the value comes from, and a value that is pending. */
export function showSettings({ settings, origins, pending }: ShownSettings): Answer {
  const { dependencies, ...others } = settings;
  const values = new Map<string, unknown>(Object.entries(others));
  for (const kind of ["pip", "apt", "conda"] as const) {
    // A list of packages that is in a file is shown as the path of that file.
    values.set(`dependencies.${kind}`, dependencies.paths[kind] ?? dependencies[kind]);
  }
  values.set("dependencies.groups", dependencies.groups);
  const pendingValues = new Map<string, unknown>(Object.entries(pending));
  const shown: Answer = {};
  for (const [name, origin] of Object.entries(origins)) {
    const setting = { value: values.get(name), origin };
    shown[name] = pendingValues.has(name)
      ? { ...setting, pending: pendingValues.get(name) }
      : setting;
  }
  return shown;
}

/** The verb in the sentence about `count` changed settings. */
function verbOf(count: number, isDryRun: boolean): string {
  if (isDryRun) return "would be";
  return count === 1 ? "is" : "are";
}

function changeText({ need, changed, isServed, build }: ChangedApp, isDryRun: boolean): string {
  if (need === null) return "Nothing changes: the app has these settings already.";
  const what = `${changed.join(", ")} ${verbOf(changed.length, isDryRun)} changed`;
  if (need === "live" && !isServed)
    return `${what}; this starts nothing, and takes effect once a build of the app has succeeded.`;
  if (need === "live")
    return `${what}; this takes effect within a second, without a build or a restart.`;
  if (need === "build") {
    const which = build === null ? "this would start a build" : `build ${build.number} was started`;
    return `${what}; ${which}; it takes effect when that build has succeeded.`;
  }
  // The remaining need is "replica": the same files are released with the new settings.
  return build === null
    ? `${what}; a new release of the same files would be tried and then take the calls.`
    : `${what}; release ${build.releaseNumber} of the same files is tried and then takes the calls.`;
}
