// Builds of images on the tests' Docker engine.
import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Docker from "dockerode";
import { BuildFailed, type BuildPlan } from "#drivers/builder.ts";
import { dockerArtifact, type DockerArtifact } from "#drivers/docker/artifact.ts";
import { DockerBuilder, type DockerBuilderOptions } from "#drivers/docker/builder.ts";
import { keyedNames } from "#drivers/docker/keyed-names.ts";
import { projectUser } from "#drivers/project-user.ts";
import { systemClock } from "#lib/clock.ts";
import { appIdOf, newProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { folderSource } from "#drivers/source-archive.ts";
import { buildPlan } from "./build-plan.ts";
import { toolEnvironment } from "./build-queue.ts";
import { cleanLast, type WithAfter } from "./clean-last.ts";
import type { Engine } from "./dockerd.ts";
import { temporaryFolder } from "./folder.ts";
import { diskWatch } from "./disk-watch.ts";

/** One app whose images a test builds. */
export type ImageBuilds = {
  readonly builder: DockerBuilder;
  readonly buildsDir: string;
  /** A label of its images. */
  readonly installationId: string;
  /** Removes all images and folders that a build has left. */
  collectAll(): Promise<void>;
  /**
   * Builds the files; `lines` receives the log, one line `stage stream text` each. Rejects with
   * `BuildFailed`.
   */
  build(
    files: Readonly<Record<string, string | Buffer>>,
    given?: GivenBuild,
  ): Promise<DockerArtifact>;
};

export type GivenBuild = {
  readonly plan?: Partial<BuildPlan>;
  readonly auth?: string;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly lines?: string[];
};

const runtimeDir = join(import.meta.dirname, "../../../runtimes/python");
const buildTimeoutMs = 240_000;

/** A builder with an instance id of its own; its images are removed after the test. */
export function imageBuilds(
  t: WithAfter,
  engine: Engine,
  options: Partial<DockerBuilderOptions> = {},
): ImageBuilds {
  const folder = temporaryFolder(t, "images");
  const buildsDir = join(folder, "builds");
  const installationId = `test-${randomBytes(6).toString("hex")}`;
  const client = new Docker({ socketPath: engine.socketPath });
  const builder = new DockerBuilder({
    installationId,
    names: keyedNames(randomBytes(32)),
    engine: { calls: client, streams: client, pings: client },
    buildsDir,
    runtimeDir,
    toolEnvironment,
    buildTimeoutMs,
    userOf: projectUser,
    registry: null,
    limits: null,
    disk: diskWatch(folder),
    firewall: null,
    segment: null,
    // Tests may pull from every registry.
    moreRegistries: ["*"],
    clock: systemClock,
    log: silentLog,
    engineEnvironment: { DOCKER_HOST: engine.dockerHost },
    cache: { bytesMax: 20e9, hoursMax: 1000 },
    ...options,
  });
  const collectAll = (): Promise<void> =>
    builder.collect(() => Promise.resolve({ artifacts: [], building: [] }));
  cleanLast(t, collectAll);
  const appId = appIdOf(newProjectId(), "app");
  let sources = 0;
  return {
    builder,
    buildsDir,
    installationId,
    collectAll,
    async build(
      files,
      { plan, auth, secrets: values = {}, signal = new AbortController().signal, lines = [] } = {},
    ) {
      const sourceDir = join(folder, `source-${sources++}`);
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(dirname(join(sourceDir, name)), { recursive: true });
        writeFileSync(join(sourceDir, name), text);
      }
      const log = (...parts: readonly [string, string, string]): void =>
        void lines.push(parts.join(" "));
      const registryAuth = (): Promise<Secret | null> =>
        Promise.resolve(auth === undefined ? null : new Secret(auth));
      const secrets = new Map(
        Object.entries(values).map(([name, value]) => [name, new Secret(value)]),
      );
      const given = buildPlan({
        appId,
        pythonVersion: "3.11",
        secretNames: [...secrets.keys()],
        ...plan,
      });
      const built = builder
        .build(given, { source: folderSource(sourceDir), log, signal, registryAuth, secrets })
        .catch((error: unknown) => {
          // Only the log says what a step that failed by surprise has seen.
          if (error instanceof BuildFailed) error.stack += `\n${lines.join("\n")}`;
          throw error;
        });
      return dockerArtifact(await built);
    },
  };
}
