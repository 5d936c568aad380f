// Reads from an app's row the settings that decide about its pushes; all of them come from requests to the API.
import { appFields } from "@slipway/contract/app-fields.ts";
import { requestedSource } from "#apps/settings.ts";
import { checkFolder } from "#deploy/sources/git-url.ts";
import type { PushedApp } from "./judge.ts";
import type { PushedAppRow } from "./push-store.ts";

/** The settings of a row, which were validated when they were stored. */
export function pushedApp(row: PushedAppRow): PushedApp {
  const body = row.request as Readonly<Record<string, unknown>>;
  const { gitRepo, gitBranch, gitPath } = requestedSource(body);
  const isBranchGiven = (body["gitBranch"] ?? null) !== null;
  const folder = checkFolder(gitPath);
  return {
    ...{
      gitRepo,
      gitBranch: isBranchGiven ? gitBranch : (row.usual_branch ?? gitBranch),
      gitPath: folder.ok ? folder.value : gitPath,
    },
    gitAutoDeploy: (body["gitAutoDeploy"] ?? appFields.gitAutoDeploy.default) === true,
    pausedReason: row.auto_deploy_paused_reason,
    isStopped: row.stopped_at !== null,
  };
}
