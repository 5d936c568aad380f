// Starts the whole platform with the Docker driver, on the engine of the test run, and removes what
// it made there after the test.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { removeFirewall } from "#drivers/app-firewall-machine.ts";
import { installationOf } from "#drivers/app-firewall.ts";
import { bridges } from "#drivers/docker/app-networks.ts";
import { cleanLast } from "./clean-last.ts";
import { openEngine } from "./docker-engine.ts";
import { runDocker, type Engine } from "./dockerd.ts";
import { startPlatformOnTestServer } from "./platform-on-test-server.ts";
import type { PlatformProcess } from "./platform-process.ts";

/** A platform whose replicas are containers. */
export type DockerPlatform = {
  readonly platform: PlatformProcess;
  readonly engine: Engine;
  /** The ids of its running containers. */
  containers(): string[];
};

/** `settings` are SLIPWAY_… variables. `own`: an engine other than that of the run. */
export async function startDockerPlatform(
  t: TestContext,
  settings: Record<string, string> = {},
  own?: Engine,
): Promise<DockerPlatform> {
  const engine = own ?? (await openEngine());
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_DRIVER: "docker",
    SLIPWAY_DOCKER_HOST: engine.dockerHost,
    ...settings,
  });
  const list = await leaveNothing(t, platform, engine);
  return { platform, engine, containers: () => list("ps") };
}

/**
 * Removes what a platform has made in the engine, after the test. Lists its containers, networks or
 * images by the command's words.
 */
export async function leaveNothing(
  t: Pick<TestContext, "after">,
  platform: Pick<PlatformProcess, "dataDir">,
  engine: Pick<Engine, "dockerHost">,
): Promise<(...words: string[]) => string[]> {
  const instanceId = (await readFile(join(platform.dataDir, "instance.id"), "utf8")).trim();
  const ours = `--filter=label=slipway.instance=${instanceId}`;
  const list = (...words: string[]): string[] =>
    runDocker(engine, ...words, "--quiet", ours)
      .split("\n")
      .filter(Boolean);
  cleanLast(t, async () => {
    for (const id of list("ps", "--all")) runDocker(engine, "rm", "--force", id);
    for (const id of list("network", "ls")) runDocker(engine, "network", "rm", id);
    for (const id of new Set(list("image", "ls"))) runDocker(engine, "image", "rm", "--force", id);
    await removeRules(platform);
  });
  return list;
}

/**
 * Removes the firewall rules of a platform that was not asked to, since it was killed or left
 * replicas.
 */
export async function removeRules({ dataDir }: Pick<PlatformProcess, "dataDir">): Promise<void> {
  const none = {
    allowed: [],
    nameServers: [],
    egress: new Map(),
    buildBridge: null,
    platform: null,
  };
  await removeFirewall({ ...none, installation: installationOf(dataDir), links: bridges });
}
