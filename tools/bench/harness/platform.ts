// Starts a complete platform as its own process, with an app that is live on it.
import type { TestContext } from "node:test";
import { leaveNothing } from "@slipway/server/test/support/docker-platform.ts";
import { deploy, replicaCount } from "@slipway/server/test/support/examples.ts";
import {
  startGitServer,
  type GitServer,
  type RepositoryFiles,
} from "@slipway/server/test/support/git-server.ts";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";

/** An app, whose repository is `bench/<name>`, on a platform of its own. */
export type BenchApp = DeployedApp & {
  readonly platform: PlatformProcess;
  readonly git: GitServer;
  readonly name: string;
};

/** `path`: of the app in the management API. */
export type DeployedApp = { readonly appId: string; readonly path: string };

/** What a platform and its app are started with. */
export type AppOptions = {
  readonly name: string;
  /** The repository; without a `slipway.toml` it gets one that names Python 3.11. */
  readonly files: RepositoryFiles;
  /** Settings of the app, as the management API takes them. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** SLIPWAY_… variables of the platform. */
  readonly settings?: Readonly<Record<string, string>>;
  /** The Docker engine of the platform; without it, replicas are processes. */
  readonly dockerHost?: string;
};

const toml = `[cerebrium.deployment]\npython_version = "3.11"\n`;
const sleepMs = 60_000;

/** Starts a git server and a platform, and deploys the app. */
export async function startApp(
  t: TestContext,
  { name, files, fields = {}, settings = {}, dockerHost }: AppOptions,
): Promise<BenchApp> {
  const git = await startGitServer(t);
  await git.createRepo("bench", name, { "slipway.toml": toml, ...files });
  const given = { SLIPWAY_GIT_URL: git.urlTemplate, ...settings };
  const platform = await startBenchPlatform(t, given, dockerHost);
  const app = await deployApp(platform, { name, gitRepo: `bench/${name}`, ...fields });
  return { ...app, platform, git, name };
}

/** A platform that leaves nothing in its Docker engine, if it uses one. */
export async function startBenchPlatform(
  t: TestContext,
  settings: Readonly<Record<string, string>>,
  dockerHost?: string,
): Promise<PlatformProcess> {
  if (dockerHost === undefined) return await startPlatform(t, settings);
  const docker = { SLIPWAY_DRIVER: "docker", SLIPWAY_DOCKER_HOST: dockerHost };
  const platform = await startPlatform(t, { ...docker, ...settings });
  await leaveNothing(t, platform, { dockerHost });
  // Before that, as the last thing comes first.
  t.after(() => platform.end("SIGTERM"));
  return platform;
}

/** Creates an app and waits until it is live. */
export async function deployApp(
  platform: PlatformProcess,
  fields: Readonly<Record<string, unknown>>,
): Promise<DeployedApp> {
  const { appId, status, log } = await deploy(platform, fields);
  if (status !== "success") throw new Error(`the build of ${appId} ended with ${status}\n${log}`);
  return { appId, path: `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}` };
}

/** Waits until the apps have no replicas: ones that end would disturb what is measured next. */
export async function untilAsleep(
  platform: PlatformProcess,
  appIds: readonly string[],
): Promise<void> {
  const areAsleep = async (): Promise<boolean> => {
    const counts = await Promise.all(appIds.map((appId) => replicaCount(platform, appId)));
    return counts.every((count) => count === 0);
  };
  await until("the apps sleep", areAsleep, { deadlineMs: sleepMs });
}
