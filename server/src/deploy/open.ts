// Opens the build queue with git as its source.
import type { Credentials } from "#apps/credentials.ts";
import type { Builder } from "#drivers/builder.ts";
import type { Driver } from "#drivers/driver.ts";
import type { AppId } from "#lib/ids.ts";
import type { BuildLogs } from "#logs/build-log.ts";
import type { Foundation } from "#store/foundation.ts";
import { BuildQueue } from "./queue.ts";
import { GitSource } from "./sources/git.ts";
import { cpuSecondsFor, Git } from "./sources/git-command.ts";
import type { TrialStarter } from "./trial.ts";

export type DeploySettings = {
  /** Contains `{owner}` and `{repo}`. */
  readonly gitUrl: string;
  readonly gitTimeoutSeconds: number;
  readonly gitSizeBytes: number;
  readonly toolEnvironment: Readonly<Record<string, string>>;
  readonly providers: readonly string[];
  readonly buildTimeoutSeconds: number;
  readonly buildsAtOnce: number;
  readonly releasesKept: number;
  readonly paths: { readonly sourcesDir: string };
};

type Parts = Foundation & {
  readonly driver: Driver;
  readonly builder: Builder;
  readonly buildLogs: BuildLogs;
  readonly credentials: Credentials;
  readonly trial: TrialStarter;
  readonly refreshRoute: (appId: AppId) => Promise<void>;
};

/** Returns the queue; it claims builds once started, and stops with the platform. */
export function openBuilds(settings: DeploySettings, parts: Parts): BuildQueue {
  const { db, notifications, instanceId, log, clock, driver, builder, buildLogs, credentials, trial, refreshRoute } =
    parts;
  const git = new Git({ ...settings, cpuSecondsMax: cpuSecondsFor(settings.gitSizeBytes) });
  const source = new GitSource({
    ...{ git, clock, log, urlTemplate: settings.gitUrl },
    timeoutMs: settings.gitTimeoutSeconds * 1000,
    bytesMax: settings.gitSizeBytes,
    sourcesDir: settings.paths.sourcesDir,
    findCredential: (projectId, host) => credentials.forFetch(projectId, host),
  });
  return new BuildQueue({
    ...{ db, notifications, instanceId, source, builder, driver, clock, log, trial, refreshRoute },
    logs: buildLogs,
    registryAuthOf: (appId) => credentials.forRegistry(appId),
    providers: settings.providers,
    buildTimeoutMs: settings.buildTimeoutSeconds * 1000,
    buildsAtOnce: settings.buildsAtOnce,
    releasesKept: settings.releasesKept,
  });
}
