// The process driver's builder: turns an app into a folder with its files, a Python of this machine
// and a virtual environment. Stages: prepare (files, Python), commands before, packages, commands
// after, compiled files.
import { buildAgain } from "@slipway/contract/advice.ts";
import { existsSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { maskOf, revealed } from "#drivers/build-secrets.ts";
import {
  BuildFailed,
  type BuildContext,
  type Builder,
  type BuildLog,
  type BuildPlan,
  type UsedArtifacts,
} from "#drivers/builder.ts";
import type { Artifact } from "#drivers/driver.ts";
import { addSelfLink } from "#drivers/self-link.ts";
import { unpackSource } from "#drivers/source-archive.ts";
import type { Clock } from "#lib/clock.ts";
import { failingLine } from "#lib/failing-line.ts";
import { projectIdOf, type BuildId } from "#lib/ids.ts";
import { processArtifact, type ProcessArtifact } from "./artifact.ts";
import { BuildPackages, pythonFolders, type EnvironmentRequest } from "./build-packages.ts";
import { buildLimits, groupAt, makeGroup, removeGroup } from "./cgroup.ts";
import type { Cgroups } from "./cgroup-detect.ts";
import { exitText, giveFolder, runTool, type BuildTools } from "./build-tool.ts";
import type { DiskWatch, DiskWriter } from "#drivers/disk/disk-watch.ts";
import { ownFolders } from "#drivers/removed-folders.ts";
import { endMarked } from "./leftovers.ts";
import { choosePython, type Python } from "./python-choice.ts";
import type { PythonFinder } from "./python-find.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import { findRootPathUse } from "./root-path.ts";
import type { Sandbox } from "./sandbox.ts";

export type ProcessBuilderOptions = {
  /** Absolute path; contains one folder per build, and `cache`. */
  readonly buildsDir: string;
  readonly pythons: PythonFinder;
  /** Environment variables that programs of a build can see. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
  /** The timeout of one command; the signal of its context bounds a whole build. */
  readonly commandTimeoutMs: number;
  /** The runtime's Python files, compiled for each Python that apps use; null for none. */
  readonly runtimeDir: string | null;
  readonly sandbox: Sandbox;
  /** The control groups of `detectCgroups`. */
  readonly cgroups: Cgroups;
  /** Aborts builds that fill the disk. */
  readonly disk: DiskWatch;
  /** Folders hidden from commands of apps: the platform's data. */
  readonly hidden: readonly string[];
  readonly clock: Clock;
};

/** The timeout for compiling the Python files of one folder. */
const compileTimeoutMs = 120_000;

/** Builds on this machine, into `buildsDir/<buildId>`. */
export class ProcessBuilder implements Builder {
  readonly #options: ProcessBuilderOptions;
  readonly #packages: BuildPackages;
  /** Environments of builds whose artifact is not stored yet. */
  readonly #handedOut = new Map<BuildId, string>();
  /** Pythons for which the runtime is already compiled. */
  readonly #compiledFor = new Set<string>();

  constructor(options: ProcessBuilderOptions) {
    this.#options = options;
    this.#packages = new BuildPackages({
      dir: join(options.buildsDir, "cache"),
      clock: options.clock,
    });
  }

  async build(plan: BuildPlan, context: BuildContext): Promise<Artifact> {
    if (plan.dockerfilePath !== null) {
      throw new BuildFailed(
        "The process driver does not build Dockerfiles; the docker driver does (SLIPWAY_DRIVER=docker). Ask the operator to switch to it, or remove dockerfilePath and set the app's packages and entrypoint instead.",
      );
    }
    const refusal = this.#options.disk.buildRefusal();
    if (refusal !== null) throw new BuildFailed(`${refusal} Then ${buildAgain}.`);
    const buildDir = join(this.#options.buildsDir, plan.buildId);
    const ended = new AbortController();
    // Earlier builds have left files in the cache, and an earlier attempt may have left a folder.
    const isEmpty = false;
    const removeWriter = this.#options.disk.add(this.#writerOf(plan, ended), isEmpty);
    // An earlier attempt of this build may have been killed: remove what it left.
    await this.#endPrograms(buildDir, context);
    await removeFolder(buildDir);
    try {
      const signal = AbortSignal.any([context.signal, ended.signal]);
      return await this.#buildAndEndPrograms(plan, { ...context, signal }, buildDir);
    } catch (error) {
      await removeFolder(buildDir);
      throw error;
    } finally {
      // The rest of the folder is the artifact.
      for (const name of ["home", "staging", "etc"]) await removeFolder(join(buildDir, name));
      removeWriter();
      removeGroup(groupAt(this.#options.cgroups.parents, groupName(plan)));
    }
  }

  isThere(artifact: Artifact): Promise<boolean> {
    const { appDir, python } = processArtifact(artifact);
    return Promise.resolve(existsSync(appDir) && existsSync(python));
  }

  async remove(artifact: Artifact): Promise<void> {
    if (artifact.kind !== "process") return;
    const { appDir } = processArtifact(artifact);
    await removeFolder(join(appDir, ".."));
  }

  async collect(readUsed: () => Promise<UsedArtifacts>): Promise<void> {
    // Folders and environments are listed before `readUsed`, so that what builds make later is left
    // alone.
    const names = await readdir(this.#options.buildsDir).catch(() => []);
    const buildsWithEnvironment = [...this.#handedOut.keys()];
    const used = await readUsed();
    const artifacts = used.artifacts
      .filter(({ kind }) => kind === "process")
      .map((one) => processArtifact(one));
    const building = new Set(used.building);
    // A build that has ended has stored its artifact, or has none.
    for (const buildId of buildsWithEnvironment)
      if (!building.has(buildId)) this.#handedOut.delete(buildId);
    // An artifact's app folder is `buildsDir/<buildId>/app`.
    const kept = new Set([
      "cache",
      ...building,
      ...artifacts.map(({ appDir }) => basename(dirname(appDir))),
    ]);
    for (const name of names) {
      if (!kept.has(name)) await removeFolder(join(this.#options.buildsDir, name));
    }
    const usedEnvironments = new Set(artifacts.map(({ venvDir }) => venvDir));
    const isHandedOut = (folder: string): boolean =>
      this.#handedOut.values().some((one) => one === folder);
    await this.#packages.collect((folder) => usedEnvironments.has(folder) || isHandedOut(folder));
  }

  async #build(plan: BuildPlan, context: BuildContext, buildDir: string): Promise<ProcessArtifact> {
    const { log, signal } = context;
    const appDir = join(buildDir, "app");
    const tools = await this.#openTools(plan, context, buildDir);
    const python = await this.#choosePython(plan, log);
    signal.throwIfAborted();
    await unpackSource(context.source, appDir, signal);
    await addSelfLink(appDir);
    const ownDir = join(buildDir, "venv");
    const onBegin = (): void => context.onEnvironment?.();
    const { secrets } = context;
    const request = { plan, python, tools, secrets, appDir, ownDir, onBegin };
    const venvDir = await this.#packages.environment(request, () =>
      runCommands("pre_build_commands", request),
    );
    this.#handedOut.set(plan.buildId, venvDir);
    await runCommands("shell_commands", request);
    await this.#compile(request, venvDir === ownDir);
    const takesRootPath = await findRootPathUse({ plan, tools, appDir, venvDir });
    const interpreter = join(venvDir, "bin/python");
    return {
      kind: "process",
      appDir,
      python: interpreter,
      venvDir,
      pythonVersion: python.version,
      takesRootPath,
    };
  }

  /** Builds, and ends programs that the build has left running. */
  async #buildAndEndPrograms(
    plan: BuildPlan,
    context: BuildContext,
    buildDir: string,
  ): Promise<ProcessArtifact> {
    try {
      return await this.#build(plan, context, buildDir);
    } finally {
      await this.#endPrograms(buildDir, context);
    }
  }

  /**
   * Kills programs that commands left running: finds them by their HOME, which is the HOME of no
   * other build. With a sandbox, no program is left.
   */
  async #endPrograms(buildDir: string, { log }: BuildContext): Promise<void> {
    const { sandbox, clock } = this.#options;
    if (sandbox.kind !== "none" || (await endMarked(`HOME=${homeOf(buildDir)}`, clock))) return;
    log(
      "commands",
      "platform",
      "Warning: programs that the build has started could not be ended and are still running.",
    );
  }

  #writerOf(plan: BuildPlan, ended: AbortController): DiskWriter {
    const { buildsDir } = this.#options;
    const projectId = projectIdOf(plan.appId);
    const shared = [join(buildsDir, "cache/environments"), join(buildsDir, "cache/downloads")];
    return {
      kind: "build",
      id: plan.buildId,
      projectId,
      folders: () => [
        join(buildsDir, plan.buildId),
        ...shared.flatMap((dir) => ownFolders(dir, projectId)),
      ],
      pid: () => null,
      end: (reason) => ended.abort(new BuildFailed(reason)),
    };
  }

  async #openTools(
    plan: BuildPlan,
    { log, signal, secrets }: BuildContext,
    buildDir: string,
  ): Promise<BuildTools> {
    const { toolEnvironment, commandTimeoutMs, sandbox, hidden, cgroups } = this.#options;
    const homeDir = homeOf(buildDir);
    const stagingDir = join(buildDir, "staging");
    const home = {
      HOME: homeDir,
      TMPDIR: join(homeDir, "tmp"),
      PYTHONNOUSERSITE: "1",
      LC_ALL: "C.UTF-8",
    };
    const projectId = projectIdOf(plan.appId);
    const tools: BuildTools = {
      log,
      signal,
      sandbox,
      hidden,
      homeDir,
      stagingDir,
      projectId,
      mask: maskOf(secrets),
      etcDir: join(buildDir, "etc"),
      cgroup: makeGroup(cgroups.parents, groupName(plan), buildLimits),
      environment: { ...toolEnvironment, ...home },
      timeoutMs: commandTimeoutMs,
    };
    await mkdir(stagingDir, { recursive: true });
    await mkdir(join(homeDir, "tmp"), { recursive: true });
    await giveFolder(tools, homeDir);
    return tools;
  }

  async #choosePython(plan: BuildPlan, log: BuildLog): Promise<Python> {
    const { pythons } = this.#options;
    const needs = {
      version: plan.pythonVersion,
      isGiven: plan.isPythonVersionGiven,
      needsPip: plan.requirements.length > 0 || plan.project !== null || hasCommands(plan),
    };
    let choice = choosePython({ ...needs, installed: await pythons.ofVersion(plan.pythonVersion) });
    // Other versions are looked at only when the plan's version is missing or incomplete.
    if (!choice.ok || choice.warning !== null)
      choice = choosePython({ ...needs, installed: await pythons.all() });
    if (!choice.ok) throw new BuildFailed(choice.reason);
    if (choice.warning !== null) log("prepare", "platform", `Warning: ${choice.warning}`);
    log("prepare", "platform", `Python ${choice.python.version}.${choice.python.patch}`);
    return choice.python;
  }

  /**
   * Compiles what will be imported, to speed up the first start. A file that cannot be compiled
   * does not fail the build: it fails when it is imported. Uses the Python that the environment was
   * made from, so that nothing runs here that the app's commands put into the environment.
   * `hasOwnEnvironment`: the app has an environment of its own.
   */
  async #compile(
    { plan, python, tools, appDir }: CommandContext,
    hasOwnEnvironment: boolean,
  ): Promise<void> {
    const { runtimeDir } = this.#options;
    const bounded = { ...tools, timeoutMs: Math.min(compileTimeoutMs, tools.timeoutMs) };
    const command = (folder: string): [string, ...string[]] => [
      python.path,
      "-I",
      "-m",
      "compileall",
      "-q",
      folder,
    ];
    await runTool(bounded, {
      command: command(appDir),
      cwd: appDir,
      stage: "code",
      isQuiet: true,
      // Commands have run only if the app has an environment of its own. Only then can the files
      // contain links that commands made, and belong to the user of confined programs.
      ...(hasOwnEnvironment
        ? { confinedTo: { readOnly: pythonFolders(python), writable: [appDir] } }
        : {}),
    });
    if (runtimeDir === null || plan.runtime !== "cortex" || this.#compiledFor.has(python.path))
      return;
    await runTool(bounded, {
      command: command(runtimeDir),
      cwd: "/",
      stage: "code",
      isQuiet: true,
    });
    this.#compiledFor.add(python.path);
  }
}

function groupName({ buildId }: BuildPlan): string {
  return `build-${buildId}`;
}

function homeOf(buildDir: string): string {
  return join(buildDir, "home");
}

function hasCommands(plan: BuildPlan): boolean {
  return plan.preBuildCommands.length + plan.shellCommands.length > 0;
}

type CommandContext = Omit<EnvironmentRequest, "onBegin">;

/**
 * Runs each line with a shell in the app's folder, with the environment's `bin` first in the PATH.
 */
async function runCommands(
  list: "pre_build_commands" | "shell_commands",
  request: CommandContext,
): Promise<void> {
  const { plan, python, tools, secrets, appDir, ownDir } = request;
  const lines = list === "pre_build_commands" ? plan.preBuildCommands : plan.shellCommands;
  if (lines.length === 0) return;
  for (const [index, line] of lines.entries()) {
    tools.log("commands", "platform", `$ ${line}`);
    const result = await runTool(tools, {
      command: ["/bin/sh", "-c", line],
      cwd: appDir,
      stage: "commands",
      environment: {
        ...plan.environment,
        ...revealed(secrets),
        PATH: `${join(ownDir, "bin")}:${tools.environment["PATH"] ?? ""}`,
        VIRTUAL_ENV: ownDir,
        PYTHONUNBUFFERED: "1",
      },
      confinedTo: { readOnly: pythonFolders(python), writable: [appDir, ownDir], codeDir: appDir },
    });
    if (result.isOk) continue;
    const endText = exitText(result.end, tools.timeoutMs);
    const reason = failingLine(result.output);
    const said = reason === "" ? "" : ` It says: ${shown(reason)}.`;
    throw new BuildFailed(
      `Command ${index + 1} of ${list} ${endText}: ${shown(line)}.${said} See its output above; fix the command and ${buildAgain}.`,
    );
  }
}

/** A longer command or line is shortened in a message. */
const shownMax = 200;

function shown(text: string): string {
  return text.length > shownMax ? `${text.slice(0, shownMax)}…` : text;
}
