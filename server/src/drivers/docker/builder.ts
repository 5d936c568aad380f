// The Docker driver's builder: turns an app into an image, with BuildKit through the docker command
// line. The engine keeps the image; credentials for registries live in a folder of the build, and
// nowhere else.
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { maskOf } from "#drivers/build-secrets.ts";
import {
  BuildFailed,
  type BuildContext,
  type Builder,
  type BuildPlan,
  type UsedArtifacts,
} from "#drivers/builder.ts";
import type { DiskWatch, DiskWriter } from "#drivers/disk/disk-watch.ts";
import type { Artifact } from "#drivers/driver.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { Clock } from "#lib/clock.ts";
import { runCommand } from "#lib/command.ts";
import { projectIdOf, type ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import { dockerArtifact, type DockerArtifact } from "./artifact.ts";
import { checkDigests, checkRegistries, digestNotPlain } from "./base-images.ts";
import { explainBuildFailure } from "./build-error.ts";
import { BuildSteps, stepMark, type StepLimits } from "./build-limits.ts";
import { isProxy, packageLists, prepareBuild } from "./build-folder.ts";
import { enterBuildNetwork, type BuildNetwork } from "./build-network.ts";
import { BuildProgress } from "./build-progress.ts";
import { labels } from "./container-spec.ts";
import { addressFetched, hasHereDocument, headLinesOf } from "./dockerfile-check.ts";
import { findClient, pluginFolders, runClient, type FoundClient } from "./docker-client.ts";
import type { Engine } from "./engine.ts";
import { checkImage } from "./image-check.ts";
import { imagesIn, registryRefused } from "./image-sources.ts";
import type { KeyedNames } from "./keyed-names.ts";
import { hasImage, type ImageRegistry } from "./pull-image.ts";
import { digestsIn, imagesOf, registryAuths, type RegistryAuths } from "./registry-auth.ts";
import { ConnectionBroke, retryBuild } from "./retry-build.ts";

export type DockerBuilderOptions = BuildNetwork & {
  readonly installationId: string;
  readonly names: KeyedNames;
  readonly engine: Pick<Engine, "calls" | "streams" | "pings">;
  /** Absolute path; holds a folder for each running build. */
  readonly buildsDir: string;
  /** The files of the cortex runtime. */
  readonly runtimeDir: string;
  /** Variables with which the client finds the engine: DOCKER_HOST and the like. */
  readonly engineEnvironment: Readonly<Record<string, string>>;
  /** PATH, proxies, certificates and package indexes for the client and for the steps of builds. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
  /** The user id that owns a project's storage, and that its apps run as. */
  readonly userOf: (projectId: ProjectId) => number;
  readonly buildTimeoutMs: number;
  /** Where images are pushed, with the operator's credentials; null: they stay in the engine. */
  readonly registry: ImageRegistry | null;
  /** Registries beside the usual ones that images may come from. */
  readonly moreRegistries: readonly string[];
  /** What the engine may keep of earlier steps. */
  readonly cache: { readonly bytesMax: number; readonly hoursMax: number };
  /** The limits of each step; null: this machine's cgroups cannot be set. */
  readonly limits: StepLimits | null;
  /** Ends builds that fill the disk; without it nothing does. */
  readonly disk?: Pick<DiskWatch, "add" | "buildRefusal" | "storeRefusal">;
  readonly clock: Clock;
  readonly log: Log;
};

/**
 * The folder with the client's configuration and the app's credentials, within a build's folder.
 */
const clientFolder = "client";
/** How often the steps of a build, and the room on the disk, are looked at. */
const lookEveryMs = 100;

/** Builds images in the engine that the client's environment names. */
export class DockerBuilder implements Builder {
  readonly #options: DockerBuilderOptions;

  constructor(options: DockerBuilderOptions) {
    this.#options = options;
  }

  async build(plan: BuildPlan, context: BuildContext): Promise<Artifact> {
    const refusal = this.#options.disk?.buildRefusal() ?? null;
    if (refusal !== null) throw new BuildFailed(`${refusal} Then ${buildAgain}.`);
    const { engine, clock, buildTimeoutMs } = this.#options;
    const ofAll = {
      endsAtMs: clock.monotonicMs() + buildTimeoutMs,
      facts: new Map<string, string>(),
    };
    return await retryBuild({ ...context, engine, clock }, () => this.#try(plan, context, ofAll));
  }

  async #try(plan: BuildPlan, context: BuildContext, ofAll: OfAllTries): Promise<DockerArtifact> {
    const dir = join(this.#options.buildsDir, plan.buildId);
    const ended = new AbortController();
    const signal = AbortSignal.any([context.signal, ended.signal]);
    const end = (error: unknown): void => ended.abort(error);
    const leave = await enterBuildNetwork(this.#options);
    try {
      // Clean up after a killed attempt.
      await removeFolder(dir);
      await mkdir(join(dir, clientFolder), { recursive: true, mode: 0o700 });
      return await this.#whileWatched({ plan, dir, end }, () =>
        this.#build(plan, { ...context, signal }, { ...ofAll, dir, end }),
      );
    } finally {
      await leave();
      await removeFolder(dir);
    }
  }

  /**
   * Keeps the build within its limits, and ends it for what it writes to the disk, or when hardly
   * any room is left.
   */
  async #whileWatched<Result>(
    {
      plan,
      dir,
      end,
    }: { readonly plan: BuildPlan; readonly dir: string; readonly end: (reason: unknown) => void },
    act: () => Promise<Result>,
  ): Promise<Result> {
    const { names, limits, disk, clock, log } = this.#options;
    const projectId = projectIdOf(plan.appId);
    const steps = limits === null ? null : new BuildSteps(limits, stepMark(names, plan));
    const turn = (): Promise<void> => {
      steps?.look();
      // Before that, those that have written the most are ended.
      const refusal = disk?.storeRefusal() ?? null;
      if (refusal !== null) end(new BuildFailed(`${refusal} Then ${buildAgain}.`));
      return Promise.resolve();
    };
    const loop = new Loop({
      name: "steps of an image build",
      intervalMs: lookEveryMs,
      turn,
      clock,
      log,
    });
    const writer: DiskWriter = {
      kind: "build",
      id: plan.buildId,
      projectId,
      folders: () => [dir, ...(steps?.written ?? [])],
      pid: () => null,
      end: (reason) => end(new BuildFailed(reason)),
    };
    const removeWriter = disk?.add(writer, true);
    loop.start();
    try {
      return await act();
    } finally {
      await loop.stop();
      removeWriter?.();
    }
  }

  async isThere(
    artifact: Artifact,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<boolean> {
    const { engine, registry, log } = this.#options;
    return await hasImage({ engine, registry, artifact: dockerArtifact(artifact), signal, log });
  }

  async remove(artifact: Artifact): Promise<void> {
    if (artifact.kind === "docker") await this.#removeImages([dockerArtifact(artifact).image]);
  }

  async collect(readUsed: () => Promise<UsedArtifacts>): Promise<void> {
    // Builds that begin after this are unknown to `readUsed`, and so are their images to this.
    const images = await this.#ownImages();
    const folders = await readdir(this.#options.buildsDir).catch(() => []);
    const { artifacts, building } = await readUsed();
    const kept = new Set(
      artifacts.flatMap((one) => (one.kind === "docker" ? [dockerArtifact(one).image] : [])),
    );
    const builds = new Set<string>(building);
    await this.#removeImages(
      images.filter(({ id, build }) => !kept.has(id) && !builds.has(build)).map(({ id }) => id),
    );
    for (const name of folders.filter((one) => !builds.has(one))) await this.#removeLeft(name);
    const { bytesMax, hoursMax } = this.#options.cache;
    await this.#docker("builder", "prune", "--force", `--filter=until=${hoursMax}h`);
    await this.#docker("builder", "prune", "--force", `--keep-storage=${bytesMax}`);
  }

  /**
   * Removes the folder of a build that was killed with the platform. Others are of the process
   * driver.
   */
  async #removeLeft(name: string): Promise<void> {
    const dir = join(this.#options.buildsDir, name);
    if (existsSync(join(dir, clientFolder))) await removeFolder(dir);
  }

  async #build(
    plan: BuildPlan,
    context: BuildContext,
    given: OfAllTries & { readonly dir: string; readonly end: (reason: unknown) => void },
  ): Promise<DockerArtifact> {
    const { dir, end, endsAtMs, facts } = given;
    const { log, signal, sourceDir } = context;
    const { installationId, names, runtimeDir, toolEnvironment, userOf } = this.#options;
    const client = await this.#client();
    const projectId = projectIdOf(plan.appId);
    const user = userOf(projectId);
    const { secrets } = context;
    const prepared = await prepareBuild({
      plan,
      secrets,
      dir,
      sourceDir,
      runtimeDir,
      user,
      toolEnvironment,
      signal,
    });
    if (prepared.dockerfile !== null)
      log("plan", "platform", dockerfileNote(plan, prepared.dockerfile));
    for (const note of prepared.notes) log("plan", "platform", note);
    const images = prepared.dockerfile === null ? [plan.baseImage] : imagesOf(prepared.dockerfile);
    const sources =
      prepared.dockerfile === null ? images : imagesIn(prepared.dockerfile, plan.environment);
    const mayLookUp = await checkRegistries(
      this.#options.engine,
      sources,
      this.#options.moreRegistries,
    );
    const auth = await context.registryAuth();
    const auths = auth === null ? {} : registryAuths(auth, images, await this.#usualRegistry());
    await this.#writeConfig(dir, auths);
    // Others are in commands, not of the build.
    const named = digestsIn(prepared.dockerfile ?? plan.baseImage).filter((name) =>
      mayLookUp(name),
    );
    if (named.length > 0)
      await checkDigests(this.#options.engine, named, {
        auths,
        usual: await this.#usualRegistry(),
        signal,
      });
    const mask = maskOf(secrets);
    const progress = new BuildProgress({
      steps: prepared.steps,
      images: sources,
      mask,
      log,
      facts,
      onRun: context.onEnvironment ?? null,
      clock: this.#options.clock,
      onFetch: (title) => end(addressFetched(mask(title))),
      onImage: (image) => {
        if (!mayLookUp(image)) end(registryRefused(mask(image)));
      },
      onDigest: (image) => {
        if (!named.some((one) => one.endsWith(image.slice(image.indexOf("@")))))
          end(digestNotPlain(mask(image)));
      },
    });
    const tag = `slipway-build:${names("image", plan.buildId)}`;
    const parameters = [
      "--progress=plain",
      `--iidfile=${join(dir, "image")}`,
      `--tag=${tag}`,
      `--label=${labels.instance}=${installationId}`,
      `--label=${labels.app}=${plan.appId}`,
      `--label=${labels.build}=${plan.buildId}`,
      ...(plan.startsClean ? ["--no-cache"] : []),
      // Both keep projects apart: cache mounts by their namespace, results of steps by the host
      // name, which is part of what is run.
      `--build-arg=BUILDKIT_CACHE_MOUNT_NS=${names("cache", projectId)}`,
      `--add-host=${stepMark(names, plan)}:127.0.0.1`,
      ...prepared.parameters,
    ];
    let image = tag;
    try {
      const dockerfile = prepared.dockerfile ?? "";
      const running = {
        plan,
        dir,
        context,
        progress,
        hasAuth: auth !== null,
        dockerfile,
        endsAtMs,
      };
      image = await this.#run(client, running, parameters);
      const exposedPort = await checkImage((...parameters) => this.#docker(...parameters), {
        plan,
        image,
        log,
      });
      const reference = await this.#push({ plan, image, dir, endsAtMs, log, signal });
      const pythonVersion = progress.facts.get("pythonVersion") ?? null;
      const takesRootPath = progress.facts.get("takesRootPath") === "true";
      return { kind: "docker", image, reference, user, pythonVersion, takesRootPath, exposedPort };
    } catch (error) {
      // It may have been finished just before it was ended.
      await this.#removeImages([image]).catch((reason: unknown) => {
        this.#options.log.warn(
          { err: reason, buildId: plan.buildId },
          "the image of a failed build is removed later",
        );
      });
      throw error;
    }
  }

  /** Returns the image's id. Ending the client makes the engine end the step that runs. */
  async #run(
    client: FoundClient,
    given: RunningBuild,
    parameters: readonly string[],
  ): Promise<string> {
    const { plan, dir, context, progress, hasAuth, dockerfile, endsAtMs } = given;
    const { buildTimeoutMs, toolEnvironment, limits } = this.#options;
    const proxies = Object.entries(toolEnvironment).filter(([name]) => isProxy(name));
    const end = await runCommand({
      command: [client.program, ...client.build, ...parameters],
      cwd: dir,
      environment: {
        ...Object.fromEntries(proxies),
        ...this.#environment(dir),
        DOCKER_BUILDKIT: "1",
      },
      signal: context.signal,
      timeoutMs: this.#leftMs(endsAtMs),
      onLine: (_stream, text) => progress.line(text),
      keepsReturns: true,
    });
    context.signal.throwIfAborted();
    if (end.kind === "timeout") {
      throw new BuildFailed(
        `The image was not built within ${Math.round(buildTimeoutMs / 1000)} s (SLIPWAY_BUILD_TIMEOUT_SECONDS). Make its steps shorter, or ask the operator for more time; then ${buildAgain}.`,
      );
    }
    if (end.kind === "exited" && end.exitCode === 0)
      return (await readFile(join(dir, "image"), "utf8")).trim();
    const baseImage = plan.dockerfilePath === null ? plan.baseImage : null;
    const memoryBytes = limits?.limits.memoryBytes ?? null;
    const ofDockerfile = {
      headLines: headLinesOf(dockerfile),
      hasHereDocument: hasHereDocument(dockerfile),
    };
    const reason = explainBuildFailure(progress.failure(), {
      hasAuth,
      baseImage,
      memoryBytes,
      ...ofDockerfile,
    });
    throw progress.isConnectionBroken ? new ConnectionBroke(reason) : new BuildFailed(reason);
  }

  #leftMs(endsAtMs: number): number {
    return Math.max(1, endsAtMs - this.#options.clock.monotonicMs());
  }

  /** The name with digest at the operator's registry; null without one. */
  async #push(
    given: { plan: BuildPlan; image: string; dir: string; endsAtMs: number } & Pick<
      BuildContext,
      "log" | "signal"
    >,
  ): Promise<string | null> {
    const { registry } = this.#options;
    if (registry === null) return null;
    const { plan, image, dir, endsAtMs, log, signal } = given;
    const folder = join(dir, "push");
    await mkdir(folder, { mode: 0o700 });
    const auths =
      registry.auth && registryAuths(registry.auth, [registry.name], await this.#usualRegistry());
    await this.#writeConfig(folder, auths ?? {});
    const name = `${registry.name}:${this.#options.names("image", plan.buildId)}`;
    log("code", "platform", `Pushing to ${registry.name}`);
    await this.#docker("tag", image, name);
    const { program } = await this.#client();
    const environment = this.#environment(folder);
    const timeoutMs = this.#leftMs(endsAtMs);
    const output = await runClient(program, ["push", name], {
      environment,
      signal,
      timeoutMs,
    }).catch((error: unknown) => {
      signal.throwIfAborted();
      const reason = error instanceof Error ? (error.message.split("\n").at(-1) ?? "") : "";
      throw new BuildFailed(
        `The image could not be pushed to ${registry.name} (${reason}). The operator has to check that registry and its credentials; then ${buildAgain}.`,
        { cause: error },
      );
    });
    const digest = /digest: (sha256:[0-9a-f]{64})/.exec(output)?.[1];
    if (digest === undefined)
      throw new BuildFailed(`${registry.name} does not say the digest of the pushed image.`);
    log("code", "platform", `Pushed as ${registry.name}@${digest}`);
    return `${registry.name}@${digest}`;
  }

  async #client(): Promise<FoundClient> {
    const found = await findClient(this.#environment(this.#options.buildsDir));
    if (found.ok) return found;
    throw new BuildFailed(
      `No image can be built here: ${found.reason}. The operator has to install the docker command line with its plugin buildx, or one older than version 23; then ${buildAgain}.`,
    );
  }

  /**
   * The client finds the engine, its plugins and its configuration, and nothing of the operator's
   * own.
   */
  #environment(folder: string): Record<string, string> {
    const { toolEnvironment, engineEnvironment } = this.#options;
    const own = { HOME: folder, DOCKER_CONFIG: join(folder, clientFolder) };
    return { PATH: toolEnvironment["PATH"] ?? "", ...engineEnvironment, ...own };
  }

  async #writeConfig(folder: string, auths: RegistryAuths): Promise<void> {
    const config = { auths, cliPluginsExtraDirs: pluginFolders };
    await mkdir(join(folder, clientFolder), { recursive: true, mode: 0o700 });
    await writeFile(join(folder, clientFolder, "config.json"), JSON.stringify(config), {
      mode: 0o600,
    });
  }

  async #docker(...parameters: readonly string[]): Promise<string> {
    const { program } = await this.#client();
    return await runClient(program, parameters, {
      environment: this.#environment(this.#options.buildsDir),
    });
  }

  /** The registry of image names that name none, as the engine says. */
  async #usualRegistry(): Promise<string> {
    return await this.#docker("info", "--format={{.IndexServerAddress}}");
  }

  async #ownImages(): Promise<{ readonly id: string; readonly build: string }[]> {
    const filter = `--filter=label=${labels.instance}=${this.#options.installationId}`;
    const ids = new Set(
      (await this.#docker("image", "ls", "--quiet", "--no-trunc", filter))
        .split("\n")
        .filter(Boolean),
    );
    if (ids.size === 0) return [];
    const form = `--format={{.Id}} {{index .Config.Labels "${labels.build}"}}`;
    const lines = (await this.#docker("image", "inspect", form, ...ids)).split("\n");
    return lines.map((line) => line.split(" ")).map(([id = "", build = ""]) => ({ id, build }));
  }

  /** One that a container still runs from is left to the next collection. */
  async #removeImages(ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      await this.#docker("image", "rm", "--force", id).catch((error: unknown) => {
        if (!/No such image|being used by running container/i.test(String(error))) throw error;
      });
    }
  }
}

/** What the tries of one build share. */
type OfAllTries = { readonly endsAtMs: number; readonly facts: Map<string, string> };

type RunningBuild = {
  readonly plan: BuildPlan;
  readonly dir: string;
  readonly context: BuildContext;
  readonly progress: BuildProgress;
  readonly hasAuth: boolean;
  readonly dockerfile: string;
  readonly endsAtMs: number;
};

/**
 * What of the settings does not count beside the app's own Dockerfile, which may copy the lists of
 * packages.
 */
function dockerfileNote(plan: BuildPlan, dockerfile: string): string {
  const unread = packageLists(plan).filter(
    ({ file, lines }) => lines.length > 0 && !dockerfile.includes(file),
  );
  const commands = {
    pre_build_commands: plan.preBuildCommands,
    shell_commands: plan.shellCommands,
  };
  const unrun = Object.entries(commands).filter(([, lines]) => lines.length > 0);
  const ignored = [...unread.map(({ setting }) => setting), ...unrun.map(([name]) => name)];
  const note = ignored.length === 0 ? "" : ` Not used with a Dockerfile: ${ignored.join(", ")}.`;
  return `The image is built from ${plan.dockerfilePath}.${note}`;
}
