// Opens the uploads of files and the build queue, which builds from git repositories and from
// uploads.
import type { Credentials } from "#apps/credentials.ts";
import type { GitHosts } from "#apps/repository.ts";
import type { Builder } from "#drivers/builder.ts";
import type { Driver } from "#drivers/driver.ts";
import type { AppId } from "#lib/ids.ts";
import type { OutwardGuard } from "#lib/outward-guard.ts";
import type { BuildLogs } from "#logs/build-log.ts";
import type { Foundation } from "#store/foundation.ts";
import type { SecretsOf } from "./build-secrets.ts";
import { BuildQueue } from "./queue.ts";
import { AnySource } from "./sources/any-source.ts";
import { GitSource } from "./sources/git.ts";
import { cpuSecondsFor, Git } from "./sources/git-command.ts";
import type { TrialStarter } from "./trial.ts";
import { giveUpUploads } from "./upload-store.ts";
import { clearStaged, Uploads, type UploadsOptions } from "./uploads.ts";

export type DeploySettings = {
  readonly gitHosts: GitHosts;
  readonly gitTimeoutSeconds: number;
  /** The maximum size of a repository. */
  readonly gitSizeBytes: number;
  /** PATH, proxies, certificates and package indexes for the programs that builds run. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  readonly buildTimeoutSeconds: number;
  readonly buildsAtOnce: number;
  /** How many good releases of an app keep their artifacts. */
  readonly releasesKept: number;
  /** The maximum size of an upload, packed and unpacked. */
  readonly uploadSizeBytes: number;
  readonly paths: { readonly sourcesDir: string; readonly uploadsDir: string };
};

type Parts = Foundation & {
  readonly driver: Driver;
  readonly builder: Builder;
  readonly buildLogs: BuildLogs;
  readonly credentials: Credentials;
  readonly secretsOf: SecretsOf;
  readonly guard: OutwardGuard;
  readonly trial: TrialStarter;
  readonly refreshRoute: (appId: AppId) => Promise<void>;
};

/** Opens the part that takes the files of deployments by upload. */
export async function openUploads(
  { uploadSizeBytes, paths }: DeploySettings,
  { db, clock, disk, ownerKeyOf }: Pick<UploadsOptions, "db" | "clock" | "disk" | "ownerKeyOf">,
): Promise<Uploads> {
  await clearStaged(paths.uploadsDir);
  return new Uploads({
    db,
    clock,
    disk,
    ownerKeyOf,
    uploadsDir: paths.uploadsDir,
    bytesMax: uploadSizeBytes,
  });
}

/** Returns the queue, which has started, and stops with the platform. */
export async function openBuilds(settings: DeploySettings, parts: Parts): Promise<BuildQueue> {
  const {
    db,
    notifications,
    instanceId,
    log,
    clock,
    driver,
    builder,
    buildLogs,
    credentials,
    trial,
    refreshRoute,
  } = parts;
  const git = new Git({ ...settings, cpuSecondsMax: cpuSecondsFor(settings.gitSizeBytes) });
  const { sourcesDir, uploadsDir } = settings.paths;
  const gitSource = new GitSource({
    git,
    clock,
    log,
    hosts: settings.gitHosts,
    timeoutMs: settings.gitTimeoutSeconds * 1000,
    bytesMax: settings.gitSizeBytes,
    sourcesDir,
    findCredential: (projectId, host) => credentials.forFetch(projectId, host),
    guard: parts.guard,
  });
  const source = new AnySource({
    git: gitSource,
    sourcesDir,
    uploadsDir,
    uploadBytesMax: settings.uploadSizeBytes,
    readKeptUploads: () => giveUpUploads(db),
  });
  const queue = new BuildQueue({
    db,
    notifications,
    instanceId,
    source,
    builder,
    driver,
    clock,
    log,
    trial,
    refreshRoute,
    logs: buildLogs,
    registryAuthOf: (appId) => credentials.forRegistry(appId),
    secretsOf: parts.secretsOf,
    providers: settings.providers,
    buildTimeoutMs: settings.buildTimeoutSeconds * 1000,
    buildsAtOnce: settings.buildsAtOnce,
    releasesKept: settings.releasesKept,
  });
  await queue.start();
  parts.lifecycle.onClose("builds", () => queue.stop());
  return queue;
}
