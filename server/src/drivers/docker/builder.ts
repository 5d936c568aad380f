// The Docker driver's builder: turns an app into an image, with BuildKit through the docker command
// line. The engine keeps the image; credentials for registries live in a folder of the build, and
// nowhere else.
import { buildAgain } from "@slipway/contract/advice.ts";
import {
  BuildFailed,
  type BuildContext,
  type Builder,
  type BuildPlan,
  type UsedArtifacts,
} from "#drivers/builder.ts";
import type { DiskWatch } from "#drivers/disk/disk-watch.ts";
import type { Artifact } from "#drivers/driver.ts";
import { dockerArtifact } from "./artifact.ts";
import { BuildClient } from "./build-client.ts";
import { tryBuild, type BuildTryParts, type ImageBuild } from "./build-try.ts";
import { collectImages, removeImages, type CollectParts } from "./collect-images.ts";
import type { Engine } from "./engine.ts";
import { buildImage, type ImageBuildParts } from "./image-build.ts";
import { hasImage } from "./pull-image.ts";
import { retryBuild } from "./retry-build.ts";

export type DockerBuilderOptions = BuildTryParts &
  Omit<ImageBuildParts, "client"> &
  CollectParts & {
    readonly engine: Pick<Engine, "calls" | "streams" | "pings">;
    /** Variables with which the client finds the engine: DOCKER_HOST and the like. */
    readonly engineEnvironment: Readonly<Record<string, string>>;
    /** The time limit for all tries of a build together. */
    readonly buildTimeoutMs: number;
    /** Refuses builds for which the disk lacks space. */
    readonly disk: Pick<DiskWatch, "buildRefusal">;
  };

/** Builds images in the engine that the client's environment names. */
export class DockerBuilder implements Builder {
  readonly #options: DockerBuilderOptions;
  readonly #client: BuildClient;

  constructor(options: DockerBuilderOptions) {
    const { buildsDir, toolEnvironment, engineEnvironment } = options;
    const path = toolEnvironment["PATH"] ?? "";
    this.#options = options;
    this.#client = new BuildClient(buildsDir, { PATH: path, ...engineEnvironment });
  }

  async build(plan: BuildPlan, context: BuildContext): Promise<Artifact> {
    const { engine, disk, clock, buildTimeoutMs } = this.#options;
    const refusal = disk.buildRefusal();
    if (refusal !== null) throw new BuildFailed(`${refusal} Then ${buildAgain}.`);
    const endsAtMs = clock.monotonicMs() + buildTimeoutMs;
    const build: ImageBuild = {
      plan,
      context,
      facts: new Map(),
      timeoutMs: buildTimeoutMs,
      leftMs: () => Math.max(1, endsAtMs - clock.monotonicMs()),
    };
    const parts = { ...this.#options, client: this.#client };
    return await retryBuild({ ...context, engine, clock }, () =>
      tryBuild(this.#options, build, (current) => buildImage(parts, current)),
    );
  }

  async isThere(
    artifact: Artifact,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<boolean> {
    const { engine, registry, log } = this.#options;
    return await hasImage({ engine, registry, artifact: dockerArtifact(artifact), signal, log });
  }

  async remove(artifact: Artifact): Promise<void> {
    if (artifact.kind === "docker")
      await removeImages(this.#client, [dockerArtifact(artifact).image]);
  }

  async collect(readUsed: () => Promise<UsedArtifacts>): Promise<void> {
    await collectImages(this.#client, this.#options, readUsed);
  }
}
