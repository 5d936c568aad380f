// Makes one image, in one try: prepares the folder, checks which images the build may use, runs the
// client, checks the image, and pushes it if there is a registry. A failed try leaves no image.
import type { BuildPlan } from "#drivers/builder.ts";
import type { Clock } from "#lib/clock.ts";
import { projectIdOf, type ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { DockerArtifact } from "./artifact.ts";
import { allowedImages } from "./base-images.ts";
import type { BuildClient } from "./build-client.ts";
import { isProxy, prepareBuild } from "./build-folder.ts";
import { stepMark, type StepLimits } from "./build-limits.ts";
import type { BuildTry } from "./build-try.ts";
import { removeImages } from "./collect-images.ts";
import { labels } from "./container-spec.ts";
import type { Engine } from "./engine.ts";
import { checkImage } from "./image-check.ts";
import type { KeyedNames } from "./keyed-names.ts";
import type { ImageRegistry } from "./pull-image.ts";
import { pushImage } from "./push-image.ts";
import { runBuild } from "./run-build.ts";

export type ImageBuildParts = {
  readonly client: BuildClient;
  readonly engine: Pick<Engine, "calls">;
  readonly installationId: string;
  readonly names: KeyedNames;
  /** The files of the cortex runtime. */
  readonly runtimeDir: string;
  /** PATH, proxies, certificates and package indexes for the client and for the steps of builds. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
  /** The user id that owns a project's storage, and that its apps run as. */
  readonly userOf: (projectId: ProjectId) => number;
  /** Registries that images may come from, in addition to the usual ones. */
  readonly moreRegistries: readonly string[];
  /** Where images are pushed, with the operator's credentials; null: they stay in the engine. */
  readonly registry: ImageRegistry | null;
  /** The limits of each step; null: this machine's cgroups cannot be set. */
  readonly limits: StepLimits | null;
  readonly clock: Clock;
  readonly log: Log;
};

/** Builds an image. Rejects with `BuildFailed`, or with the reason of the try's signal. */
export async function buildImage(
  parts: ImageBuildParts,
  current: BuildTry,
): Promise<DockerArtifact> {
  const { client, engine, names, runtimeDir, toolEnvironment, moreRegistries, registry } = parts;
  const { plan, context, dir, facts } = current;
  const { source, log, signal, secrets, registryAuth } = context;
  const { program, build } = await client.find();
  const user = parts.userOf(projectIdOf(plan.appId));
  const prepared = await prepareBuild({
    plan,
    secrets,
    dir,
    source,
    runtimeDir,
    user,
    toolEnvironment,
    signal,
  });
  for (const note of prepared.notes) log("plan", "platform", note);
  const { dockerfile } = prepared;
  const images = await allowedImages(engine, {
    plan,
    dockerfile,
    moreRegistries,
    registryAuth,
    signal,
  });
  await client.configure(dir, images.auths ?? {});
  const tag = names("image", plan.buildId);
  // The image's name, until the build has returned its id.
  let image = `slipway-build:${tag}`;
  try {
    image = await runBuild(current, {
      command: [program, ...build],
      parameters: [`--tag=${image}`, ...ownerParameters(parts, plan)],
      environment: { ...proxiesIn(toolEnvironment), ...client.environmentIn(dir) },
      prepared,
      images,
      memoryBytes: parts.limits?.limits.memoryBytes ?? null,
      clock: parts.clock,
    });
    const exposedPort = await checkImage(client, { plan, image, log });
    const reference =
      registry === null ? null : await pushImage(image, { client, engine, registry, tag }, current);
    const pythonVersion = facts.get("pythonVersion") ?? null;
    const takesRootPath = facts.get("takesRootPath") === "true";
    return { kind: "docker", image, reference, user, pythonVersion, takesRootPath, exposedPort };
  } catch (error) {
    // Even a client that was ended may have finished the image just before.
    await removeImages(client, [image]).catch((reason: unknown) => {
      parts.log.warn(
        { err: reason, buildId: plan.buildId },
        "the image of a failed build is removed later",
      );
    });
    throw error;
  }
}

/** Returns the options that say who owns the image and which cached results the build may use. */
function ownerParameters(
  { installationId, names }: Pick<ImageBuildParts, "installationId" | "names">,
  plan: BuildPlan,
): string[] {
  return [
    `--label=${labels.instance}=${installationId}`,
    `--label=${labels.app}=${plan.appId}`,
    `--label=${labels.build}=${plan.buildId}`,
    ...(plan.startsClean ? ["--no-cache"] : []),
    // The namespace separates the cache mounts of projects. The host name separates the results of
    // steps, since it is part of each step's definition.
    `--build-arg=BUILDKIT_CACHE_MOUNT_NS=${names("cache", projectIdOf(plan.appId))}`,
    `--add-host=${stepMark(names, plan)}:127.0.0.1`,
  ];
}

function proxiesIn(environment: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => isProxy(name)));
}
