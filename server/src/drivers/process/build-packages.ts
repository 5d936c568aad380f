// Virtual environments for apps. Builds of one project with the same Python and the same packages
// share an environment. An app gets its own environment if its build runs commands, which may
// install into the environment, or if packages are made of the app's own files.
import { buildAgain } from "@slipway/contract/advice.ts";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { revealed, secretsOfPackages, type BuildSecrets } from "#drivers/build-secrets.ts";
import { BuildFailed, type BuildPlan } from "#drivers/builder.ts";
import { areVersionsExact } from "#drivers/exact-versions.ts";
import { noUv, projectCommand } from "#drivers/project-command.ts";
import type { Clock } from "#lib/clock.ts";
import { BuildCache } from "./build-cache.ts";
import { exitText, giveFolder, runTool, type BuildTools, type ToolResult } from "./build-tool.ts";
import { explainInstallFailure } from "./build-install-error.ts";
import type { Python } from "./python-choice.ts";
import { removeFolder } from "#drivers/remove-folder.ts";

/**
 * The maximum age of an environment with packages that have no exact version: a day, so that
 * "latest" does not go stale.
 */
const openVersionsAgeMsMax = 24 * 3600 * 1000;
/** How many environments are kept although no app uses them. */
const environmentsKeptMax = 20;
/** How many environments with pip or uv are kept. */
const toolsKeptMax = 10;
/** The certificates that the machine trusts, on Debian and its derivatives. */
const certificatesFile = "/etc/ssl/certs/ca-certificates.crt";
/** How much of a failed command's last line is quoted. */
const saidLengthMax = 300;
/** A file in the app's folder that exists while packages are installed. */
const requirementsFile = ".slipway-requirements.txt";

export type EnvironmentRequest = {
  readonly plan: BuildPlan;
  readonly python: Python;
  readonly tools: BuildTools;
  readonly secrets: BuildSecrets;
  /** pip's working directory: the app's files, for requirements that refer to them. */
  readonly appDir: string;
  /** Path of the environment when the app gets its own. */
  readonly ownDir: string;
  /** Called when package installation or commands start. */
  readonly onBegin: () => void;
};

/** Creates and caches environments below one folder. */
export class BuildPackages {
  readonly #dir: string;
  readonly #environments: BuildCache;
  readonly #toolEnvironments: BuildCache;

  constructor(options: { readonly dir: string; readonly clock: Clock }) {
    this.#dir = options.dir;
    this.#environments = new BuildCache({
      dir: join(options.dir, "environments"),
      clock: options.clock,
    });
    this.#toolEnvironments = new BuildCache({
      dir: join(options.dir, "tools"),
      clock: options.clock,
    });
  }

  /**
   * Returns an environment with all requirements. `beforeInstall` runs when the app's own
   * environment exists and is still empty. Rejects with `BuildFailed`.
   */
  async environment(
    request: EnvironmentRequest,
    beforeInstall: () => Promise<void>,
  ): Promise<string> {
    const { plan, tools, ownDir } = request;
    const hasCommands = plan.preBuildCommands.length + plan.shellCommands.length > 0;
    const hasPackages = plan.requirements.length > 0 || plan.project !== null;
    if (hasCommands || needsCode(plan)) {
      request.onBegin();
      // Commands may call pip.
      const needsPip = true;
      await this.#create(request, ownDir, needsPip);
      await giveFolder(tools, ownDir);
      await giveFolder(tools, request.appDir);
      await beforeInstall();
      await this.#install(request, ownDir);
      return ownDir;
    }
    const { folder, isNew } = await this.#environments.get({
      key: environmentKey(request),
      ageMsMax: ageMsMaxOf(plan),
      signal: tools.signal,
      make: async (newFolder) => {
        // Without packages, the environment takes only a moment, which is not metered.
        if (hasPackages) request.onBegin();
        // The packages of a Python project need no pip: uv installs them.
        await this.#create(request, newFolder, plan.requirements.length > 0);
        await this.#install(request, newFolder);
      },
    });
    if (!isNew && hasPackages) {
      tools.log(
        "dependencies",
        "platform",
        "The packages are the same as in an earlier build: its environment is reused.",
      );
    }
    return folder;
  }

  /** Removes environments that are not used, except for the most recently used of them. */
  async collect(isUsed: (folder: string) => boolean): Promise<void> {
    await this.#environments.collect(isUsed, environmentsKeptMax);
    // No artifact uses an environment with tools.
    await this.#toolEnvironments.collect(() => false, toolsKeptMax);
  }

  /**
   * Creates an environment. Without pip, this takes 50 ms. Installing pip would take seconds, so
   * pip is copied from a cached environment.
   */
  async #create(
    { python, tools }: EnvironmentRequest,
    folder: string,
    needsPip: boolean,
  ): Promise<void> {
    await mkdir(join(folder, ".."), { recursive: true });
    await createEmpty(python, tools, folder);
    if (!needsPip) return;
    const seed = await this.#seed(python, tools);
    await copySeed({ python, tools, seed, folder });
  }

  /**
   * A cached environment with the default packages of this Python: pip, and before Python 3.12
   * setuptools.
   */
  async #seed(python: Python, tools: BuildTools): Promise<string> {
    if (!python.hasPip) {
      throw new BuildFailed(
        `Python ${python.version} on the build machine cannot install packages (its ensurepip module is missing); the operator has to install it (python${python.version}-venv on Debian).`,
      );
    }
    const { folder } = await this.#toolEnvironments.get({
      key: `pip-${shortHash(python.path, `${python.version}.${python.patch}`)}`,
      ageMsMax: Number.POSITIVE_INFINITY,
      signal: tools.signal,
      make: (newFolder) => prepare(tools, python.path, "-I", "-m", "venv", newFolder),
    });
    return folder;
  }

  async #install(request: EnvironmentRequest, venvDir: string): Promise<void> {
    const { plan, tools } = request;
    if (plan.requirements.length === 0 && plan.project === null) return;
    const uv = plan.useUv || plan.project !== null ? await this.#findUv(request) : null;
    if (plan.project !== null && uv === null) throw new BuildFailed(noUv);
    // Marks in the log where the installation begins.
    tools.log(
      "dependencies",
      "platform",
      uv === null ? "PIP_INSTALL_STARTED" : "UV_PIP_INSTALL_STARTED",
    );
    if (plan.project !== null && uv !== null) {
      const command = projectCommand(plan.project, { uv, python: join(venvDir, "bin/python") });
      await this.#runInstaller({ request, venvDir, uv }, command);
    }
    if (plan.requirements.length === 0) return;
    const file = join(request.appDir, requirementsFile);
    // Commands of the app may have put a link at this path, and nothing may be written through it:
    // whatever is there is removed first.
    await removeFolder(file);
    await writeFile(file, `${plan.requirements.join("\n")}\n`, { flag: "wx" });
    await this.#runInstaller(
      { request, venvDir, uv },
      installCommand(join(venvDir, "bin/python"), uv, file),
    );
    await rm(file, { force: true });
  }

  async #runInstaller(
    {
      request,
      venvDir,
      uv,
    }: {
      readonly request: EnvironmentRequest;
      readonly venvDir: string;
      readonly uv: string | null;
    },
    command: [string, ...string[]],
  ): Promise<void> {
    const { plan, tools, appDir, python, secrets } = request;
    const packageSecrets = secretsOfPackages(secrets, plan.requirements);
    const downloads = join(this.#dir, "downloads", tools.projectId);
    // Only installers write into this folder, so what is in it belongs to their user already.
    await giveFolder(tools, downloads, "itself");
    await giveFolder(tools, venvDir);
    // With an environment of its own, an app may have packages among its files. They are compiled
    // in place, so the app's folder is writable.
    const isAppWritable = venvDir === request.ownDir;
    // An absolute path leads into the cached environment of a uv that the platform installed.
    const uvFolders = uv?.startsWith("/") === true ? [join(uv, "../..")] : [];
    const readOnly = [...pythonFolders(python), ...uvFolders];
    const writable = [venvDir, downloads];
    const result = await runTool(tools, {
      command,
      cwd: appDir,
      stage: "dependencies",
      environment: {
        ...revealed(packageSecrets),
        PATH: `${join(venvDir, "bin")}:${tools.environment["PATH"] ?? ""}`,
        VIRTUAL_ENV: venvDir,
        UV_PROJECT_ENVIRONMENT: venvDir,
        ...machineCertificates(tools.environment),
        ...cacheVariables(downloads, packageSecrets.size > 0),
        PIP_DISABLE_PIP_VERSION_CHECK: "1",
        PIP_ROOT_USER_ACTION: "ignore",
        PYTHONUNBUFFERED: "1",
      },
      // The installer is confined, since compiling a package runs the package's code.
      confinedTo: {
        readOnly: isAppWritable ? readOnly : [...readOnly, appDir],
        writable: isAppWritable ? [...writable, appDir] : writable,
      },
    });
    if (!result.isOk)
      throw new BuildFailed(
        explainInstallFailure(result.output, exitText(result.end, tools.timeoutMs)),
      );
  }

  /**
   * Returns the machine's uv, or else a uv that is installed into a cached environment; null when
   * that fails too.
   */
  async #findUv({ python, tools }: EnvironmentRequest): Promise<string | null> {
    const installed = await runTool(tools, {
      command: ["uv", "--version"],
      cwd: "/",
      stage: "prepare",
      isQuiet: true,
    });
    if (installed.isOk) return "uv";
    try {
      const { folder } = await this.#toolEnvironments.get({
        key: `uv-${shortHash(python.path, `${python.version}.${python.patch}`)}`,
        ageMsMax: Number.POSITIVE_INFINITY,
        signal: tools.signal,
        make: async (newFolder) => {
          await createEmpty(python, tools, newFolder);
          const seed = await this.#seed(python, tools);
          await copySeed({ python, tools, seed, folder: newFolder });
          const options = ["--no-input", "--quiet", "--only-binary", ":all:"];
          const command = [
            join(newFolder, "bin/python"),
            "-m",
            "pip",
            "install",
            ...options,
            "uv",
          ] as const;
          const result = await runTool(tools, { command, cwd: "/", stage: "prepare" });
          if (!result.isOk) throw new BuildFailed("uv could not be installed");
        },
      });
      return join(folder, "bin/uv");
    } catch (error) {
      if (!(error instanceof BuildFailed)) throw error;
      tools.log(
        "prepare",
        "platform",
        "Warning: uv is not installed and cannot be installed here; pip installs the packages instead.",
      );
      return null;
    }
  }
}

/** True when some packages are made of the app's own files. */
export function needsCode({ requirements, project }: BuildPlan): boolean {
  return requirements.some((line) => namesLocalFiles(line)) || project?.needsCode === true;
}

/** The maximum age of an environment that is reused. */
function ageMsMaxOf({ startsClean, requirements, project }: BuildPlan): number {
  // Every environment is older than this, so a new one is made.
  if (startsClean) return Number.NEGATIVE_INFINITY;
  // A plan without a Python project has nothing that would need a lock.
  return areVersionsExact(requirements) && project?.isLocked !== false
    ? Number.POSITIVE_INFINITY
    : openVersionsAgeMsMax;
}

/**
 * True when a line refers to files in the app's folder: the same line means something else in
 * another app.
 */
function namesLocalFiles(line: string): boolean {
  // An option that names a file or a folder, unless the line has a URL.
  const isOptionWithFile =
    /^(-e|--editable|-c|--constraint|-r|--requirement|-f|--find-links)\b(?!.*:\/\/)/.test(line);
  // A path that begins with a dot or a slash, or a URL of a file.
  const isClearlyLocal = /^(\.|\/|file:)|@\s*file:/.test(line);
  if (isOptionWithFile || isClearlyLocal) return true;
  const isPathOrArchive = /^[^\s@;]*\/|\.(whl|zip|tar\.gz)$/.test(line);
  return isPathOrArchive && !line.includes("://");
}

/** Folders that a virtual environment of this Python links to: the one that has its `bin`. */
export function pythonFolders(python: Python): string[] {
  return [join(python.path, "../..")];
}

/**
 * Returns variables with which uv trusts the machine's certificates, as pip and git do; by default
 * uv trusts only its own. The machine's are needed behind a corporate proxy. Returns none when the
 * environment already sets one of the variables.
 */
function machineCertificates(
  environment: Readonly<Record<string, string>>,
): Record<string, string> {
  // Older versions of uv know only the second name.
  const names = ["UV_SYSTEM_CERTS", "UV_NATIVE_TLS"];
  const isSet = names.some((name) => environment[name] !== undefined);
  return isSet || !existsSync(certificatesFile)
    ? {}
    : Object.fromEntries(names.map((name) => [name, "true"]));
}

function installCommand(python: string, uv: string | null, file: string): [string, ...string[]] {
  if (uv === null)
    return [python, "-m", "pip", "install", "--no-input", "--progress-bar", "off", "-r", file];
  const options = ["--no-progress", "--compile-bytecode", "--link-mode", "copy"];
  return [uv, "pip", "install", ...options, "--python", python, "-r", file];
}

/**
 * With secrets, nothing is cached: a cache may store private packages, and beside them the requests
 * that fetched them, with the credentials.
 */
function cacheVariables(downloads: string, hasSecrets: boolean): Record<string, string> {
  if (hasSecrets) return { PIP_NO_CACHE_DIR: "1", UV_NO_CACHE: "1" };
  return { PIP_CACHE_DIR: join(downloads, "pip"), UV_CACHE_DIR: join(downloads, "uv") };
}

/**
 * The cache key of an environment. It includes the project: apps never run packages that another
 * project's builds installed. With secrets it includes the app, too, since another app may have
 * other values for the same names. The values themselves are in no key.
 */
function environmentKey({ plan, python, tools, secrets }: EnvironmentRequest): string {
  const { requirements, project: pythonProject, useUv, appId } = plan;
  const installer = useUv ? "uv" : "pip";
  const parts = [requirements.length === 0 ? "none" : installer, ...requirements];
  const pythonProjectParts = pythonProject === null ? [] : [JSON.stringify(pythonProject)];
  const names = [...secretsOfPackages(secrets, requirements).keys()];
  const appParts = names.length === 0 ? [] : [appId, names.join(" ")];
  const version = `${python.version}.${python.patch}`;
  return `${tools.projectId}-${shortHash(python.path, version, ...parts, ...pythonProjectParts, ...appParts)}`;
}

function shortHash(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 24);
}

async function createEmpty(python: Python, tools: BuildTools, folder: string): Promise<void> {
  await prepare(tools, python.path, "-I", "-m", "venv", "--without-pip", folder);
}

/** Runs a command that an environment needs. Throws `BuildFailed` when it fails. */
async function prepare(tools: BuildTools, ...command: [string, ...string[]]): Promise<void> {
  const result = await runTool(tools, { command, cwd: "/", stage: "prepare", isQuiet: true });
  if (!result.isOk) throw environmentFailed(result, tools);
}

/**
 * Copies pip and setuptools with their compiled files, and also pip's scripts, in which the paths
 * become those of the new environment.
 */
async function copySeed(copy: {
  python: Python;
  tools: BuildTools;
  seed: string;
  folder: string;
}): Promise<void> {
  const { python, tools, seed, folder } = copy;
  const packages = join("lib", `python${python.version}`, "site-packages");
  await prepare(tools, "cp", "-R", `${join(seed, packages)}/.`, `${join(folder, packages)}/`);
  const programs = await readdir(join(seed, "bin"));
  for (const name of programs.filter((program) => program.startsWith("pip"))) {
    const script = await readFile(join(seed, "bin", name), "utf8");
    await writeFile(join(folder, "bin", name), script.replaceAll(seed, folder), { mode: 0o755 });
  }
}

function environmentFailed(result: ToolResult, tools: BuildTools): BuildFailed {
  const endText = exitText(result.end, tools.timeoutMs);
  const lastLine = result.output.trim().split("\n").at(-1) ?? "";
  const said = lastLine === "" ? "" : ` (${lastLine.slice(0, saidLengthMax)})`;
  return new BuildFailed(
    `The virtual environment could not be created: the command ${endText}${said}. Please ${buildAgain}; if it fails again, ask the operator to check the machine's Python.`,
  );
}
