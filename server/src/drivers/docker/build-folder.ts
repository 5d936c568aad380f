// Fills the folder of one build of an image: what the builder reads (the context and the
// Dockerfile), and what only the client reads (credentials, variables). The folder is the
// platform's alone and is removed after the build.
import { existsSync } from "node:fs";
import { mkdir, readFile, realpath, stat, writeFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import type { BuildSecrets } from "#drivers/build-secrets.ts";
import { BuildFailed, type BuildPlan, type BuildSource } from "#drivers/builder.ts";
import { needsCode } from "#drivers/process/build-packages.ts";
import { runToEnd } from "#drivers/run-to-end.ts";
import { addSelfLink } from "#drivers/self-link.ts";
import { unpackSource } from "#drivers/source-archive.ts";
import { errorCode } from "#lib/error-code.ts";
import { decodeText } from "#lib/decoded-text.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";
import { checkDockerfile } from "./dockerfile-check.ts";
import { contextPaths, writeDockerfile, type ImageStep } from "./dockerfile.ts";
import { buildSecrets } from "./image-scripts.ts";

/** A build that is ready to run. */
export type PreparedBuild = {
  /** Options and the context, for the client's build command. */
  readonly parameters: readonly string[];
  /** The steps of the platform's Dockerfile by stage; empty for the app's own Dockerfile. */
  readonly steps: ReadonlyMap<string, ImageStep>;
  /** The text of the app's own Dockerfile; null: it has none. */
  readonly dockerfile: string | null;
  /** Lines for the build log. */
  readonly notes: readonly string[];
};

type BuildInput = {
  readonly plan: BuildPlan;
  readonly secrets: BuildSecrets;
  /** The folder of the build, which is filled. */
  readonly dir: string;
  readonly source: BuildSource;
  /** The folder with the files of the cortex runtime. */
  readonly runtimeDir: string;
  /** The user id that owns the app's files in the image. */
  readonly user: number;
  /** The operator's variables for tools: proxies, package indexes and trusted certificates. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
};

/** BuildKit refuses larger secrets. */
const secretBytesMax = 500_000;
const ignoreFile = ".dockerignore";
/** The maximum size of a Dockerfile, and of a list of files to ignore. */
const fileBytesMax = 400_000;

/** Writes what the build needs. Rejects with `BuildFailed` for a Dockerfile that cannot be used. */
export async function prepareBuild(input: BuildInput): Promise<PreparedBuild> {
  const { plan, dir, source, signal } = input;
  // The Dockerfile has a folder of its own: BuildKit, which reads it, gets the whole folder.
  await mkdir(join(dir, "dockerfile"));
  const file = join(dir, "dockerfile", "Dockerfile");
  const secretParameters = [...(await writeVariables(input)), ...(await writeSecrets(input))];
  const context = join(dir, "context");
  if (plan.dockerfilePath !== null) {
    const { dockerfilePath } = plan;
    await unpackSource(source, context, signal);
    const text = await readInside(context, dockerfilePath);
    const dockerfile = checkDockerfile(text, dockerfilePath, plan.environment);
    await writeLists(plan, context);
    // A list that is named after the Dockerfile counts instead of the general list, as in BuildKit.
    const dockerfileIgnore = `${dockerfilePath}${ignoreFile}`;
    const ignoreList = [dockerfileIgnore, ignoreFile].find((name) =>
      existsSync(join(context, name)),
    );
    await writeFile(file, dockerfile);
    // Written in UTF-8, whatever the encoding of the app's file.
    if (ignoreList !== undefined)
      await writeFile(`${file}${ignoreFile}`, await readInside(context, ignoreList));
    const variables = Object.entries(plan.environment).map(
      ([name, value]) => `--build-arg=${name}=${value}`,
    );
    // The client takes the values of proxies from its environment; no layer of the image contains
    // them.
    const proxies = Object.keys(input.toolEnvironment).filter((name) => isProxy(name));
    variables.push(...proxies.map((name) => `--build-arg=${name}`));
    const parameters = [...secretParameters, ...variables, `--file=${file}`, context];
    const notes = [dockerfileNote(plan, dockerfile), ...unknownSecrets(dockerfile, plan)];
    return { parameters, steps: new Map(), dockerfile, notes };
  }
  await fillContext(input, context);
  const { text, steps } = writeDockerfile(plan, { user: input.user, needsCode: needsCode(plan) });
  await writeFile(file, text);
  // The image gets all files of the app: the app's own list counts only for its own Dockerfile.
  await writeFile(`${file}${ignoreFile}`, "# Nothing is left out.\n");
  return {
    parameters: [...secretParameters, `--file=${file}`, context],
    steps,
    dockerfile: null,
    notes: [],
  };
}

/** The packages of the settings, and the files that an app's own Dockerfile finds them in. */
function packageLists(plan: BuildPlan) {
  return [
    { setting: "dependencies.pip", file: "requirements.txt", lines: plan.requirements },
    { setting: "dependencies.apt", file: "pkglist.txt", lines: plan.aptPackages },
    { setting: "dependencies.conda", file: "conda_pkglist.txt", lines: plan.condaPackages },
  ] as const;
}

/**
 * Writes the packages of the settings to files with the names that clients use in an upload: a
 * Dockerfile may copy these files.
 */
async function writeLists(plan: BuildPlan, context: string): Promise<void> {
  for (const { file, lines } of packageLists(plan)) {
    if (lines.length === 0) continue;
    // A file of the app with this name stays as it is, and so does a link that leads nowhere.
    await writeFile(join(context, file), `${lines.join("\n")}\n`, { flag: "wx" }).catch(
      (error: unknown) => {
        if (errorCode(error) !== "EEXIST") throw error;
      },
    );
  }
}

/** Unpacks the app's files, and writes the other files that the build needs beside them. */
async function fillContext(
  { plan, source, runtimeDir, signal }: BuildInput,
  context: string,
): Promise<void> {
  const code = join(context, contextPaths.code);
  await mkdir(context);
  await unpackSource(source, code, signal);
  await addSelfLink(code);
  await writeFile(join(context, contextPaths.requirements), `${plan.requirements.join("\n")}\n`);
  if (plan.runtime !== "cortex") return;
  const runtime = join(context, contextPaths.runtime);
  await mkdir(runtime);
  const parts = ["start.py", "slipway_cortex", "fallback"].map((name) => join(runtimeDir, name));
  await runToEnd("cp", ["-RP", ...parts, runtime], { signal });
}

/** Refuses a file that is too large for the memory of the platform or of the engine. */
async function checkSize(file: string, name: string): Promise<void> {
  const { size } = await stat(file);
  if (size <= fileBytesMax) return;
  throw new BuildFailed(
    `${name} has ${size} bytes. At most ${fileBytesMax} are read: make it shorter, and ${buildAgain}.`,
  );
}

/** Reads a file of the context. Refuses a link that leads out of it, to a file of the machine. */
async function readInside(context: string, path: string): Promise<string> {
  const root = await realpath(context);
  const file = await realpath(join(root, path)).catch(() => null);
  const isInside = file !== null && file.startsWith(`${root}${sep}`);
  const isFile = isInside && (await stat(file)).isFile();
  if (!isFile) {
    throw new BuildFailed(
      `dockerfilePath is ${path}, but that is no file in the app's folder. Name one that is, and ${buildAgain}.`,
    );
  }
  await checkSize(file, path);
  return decodeText(await readFile(file), path);
}

/** Writes one file for each secret of the app; returns the options that pass them to the build. */
async function writeSecrets({ secrets, dir }: BuildInput): Promise<string[]> {
  const folder = join(dir, "secrets");
  await mkdir(folder, { mode: 0o700 });
  for (const [name, value] of secrets)
    await writeFile(join(folder, name), value.reveal(), { mode: 0o600 });
  return [...secrets.keys()].map((name) => `--secret=id=${name},src=${join(folder, name)}`);
}

/**
 * Says which settings have no effect beside the app's own Dockerfile. A list of packages has an
 * effect when the Dockerfile names its file.
 */
function dockerfileNote(plan: BuildPlan, dockerfile: string): string {
  const unusedLists = packageLists(plan).filter(
    ({ file, lines }) => lines.length > 0 && !dockerfile.includes(file),
  );
  const commands = {
    pre_build_commands: plan.preBuildCommands,
    shell_commands: plan.shellCommands,
  };
  const unusedCommands = Object.entries(commands).filter(([, lines]) => lines.length > 0);
  const ignored = [
    ...unusedLists.map(({ setting }) => setting),
    ...unusedCommands.map(([name]) => name),
  ];
  const note = ignored.length === 0 ? "" : ` Not used with a Dockerfile: ${ignored.join(", ")}.`;
  return `The image is built from ${plan.dockerfilePath}.${note}`;
}

/**
 * Returns a warning for each secret that the Dockerfile mounts and that the build does not have.
 */
function unknownSecrets(dockerfile: string, { secretNames }: BuildPlan): string[] {
  const mounts = dockerfile.matchAll(/--mount=([^\s]*type=secret[^\s]*)/g);
  const ids = mounts.map(
    ([, mount = ""]) => /(?:^|,)id=([A-Za-z_][A-Za-z0-9_]*)(?:,|$)/.exec(mount)?.[1],
  );
  const unknown = [...new Set(ids)].filter((id) => id !== undefined && !secretNames.includes(id));
  return unknown.map(
    (id) =>
      `Warning: the Dockerfile mounts the secret ${id}, which is no build secret of the app, so there is nothing to mount. Set it as a secret, and add "${id}" to secrets below [slipway.build].`,
  );
}

/**
 * Writes the variables of the build to a file. Returns the options that pass this file to the
 * build, and the operator's file of trusted certificates if there is one.
 */
async function writeVariables({ plan, dir, toolEnvironment }: BuildInput): Promise<string[]> {
  const certificates = await certificatesOf(toolEnvironment);
  const path = `/run/secrets/${buildSecrets.certificates}`;
  const trusted =
    certificates === null ? [] : certificateVariables.map((name) => [name, path] as const);
  const variables = [
    ...Object.entries(forSteps(toolEnvironment)),
    ...trusted,
    ...Object.entries(plan.environment),
  ];
  const lines = variables
    // A shell can export no other names.
    .filter(([name]) => /^[A-Za-z_]\w*$/.test(name))
    .map(([name, value]) => `export ${name}=${shellQuoted(value)}\n`);
  const file = join(dir, "variables");
  await writeFile(file, lines.join(""), { mode: 0o600 });
  const options = [`--secret=id=${buildSecrets.variables},src=${file}`];
  if (certificates !== null)
    options.push(`--secret=id=${buildSecrets.certificates},src=${certificates}`);
  return options;
}

/** The variables that name a file of trusted certificates, for different programs. */
const certificateVariables = [
  "SSL_CERT_FILE",
  "PIP_CERT",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
];

/**
 * Returns the operator's file of trusted certificates; null: there is none that a build can get, so
 * the certificates of the image are used.
 */
async function certificatesOf(
  environment: Readonly<Record<string, string>>,
): Promise<string | null> {
  const path = certificateVariables
    .map((name) => environment[name])
    .find((value) => value !== undefined);
  if (path === undefined) return null;
  const file = await stat(path).catch(() => null);
  return file?.isFile() === true && file.size <= secretBytesMax ? path : null;
}

/** Returns the variables for proxies and package indexes that mean the same in a container. */
function forSteps(environment: Readonly<Record<string, string>>): Record<string, string> {
  const isForSteps = ([name, value]: readonly [string, string]): boolean => {
    const isOfProgram = /^(?:PIP|UV)_/.test(name) || isProxy(name);
    // A path or a file: address would lead to a file of this machine.
    const isOfMachine = /^\/|file:\//.test(value);
    return isOfProgram && !isOfMachine;
  };
  return Object.fromEntries(Object.entries(environment).filter(isForSteps));
}

/** Whether a variable names a proxy. */
export function isProxy(name: string): boolean {
  return /^(?:https?|ftp|all|no)_proxy$/i.test(name);
}
