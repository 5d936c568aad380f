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
  /** By stage; empty for the app's own Dockerfile. */
  readonly steps: ReadonlyMap<string, ImageStep>;
  /** The app's own Dockerfile. */
  readonly dockerfile: string | null;
  /** For the build log. */
  readonly notes: readonly string[];
};

type Given = {
  readonly plan: BuildPlan;
  readonly secrets: BuildSecrets;
  readonly dir: string;
  readonly source: BuildSource;
  readonly runtimeDir: string;
  readonly user: number;
  readonly toolEnvironment: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
};

/** BuildKit refuses larger secrets. */
const secretBytesMax = 500_000;
const ignoreFile = ".dockerignore";
const fileBytesMax = 400_000;

/** Writes what the build needs. Rejects with `BuildFailed` for a Dockerfile that cannot be used. */
export async function prepareBuild(given: Given): Promise<PreparedBuild> {
  const { plan, dir, source, signal } = given;
  // BuildKit's reader of Dockerfiles gets the whole folder of the file.
  await mkdir(join(dir, "dockerfile"));
  const file = join(dir, "dockerfile", "Dockerfile");
  const secrets = [...(await writeVariables(given)), ...(await writeSecrets(given))];
  const context = join(dir, "context");
  if (plan.dockerfilePath !== null) {
    const { dockerfilePath } = plan;
    await unpackSource(source, context, signal);
    const dockerfile = checkDockerfile(await readInside(context, dockerfilePath), dockerfilePath);
    await writeLists(plan, context);
    const own = `${dockerfilePath}${ignoreFile}`;
    const list = [own, ignoreFile].find((name) => existsSync(join(context, name)));
    await writeFile(file, dockerfile);
    // As it was read, whatever its encoding.
    if (list !== undefined)
      await writeFile(`${file}${ignoreFile}`, await readInside(context, list));
    const variables = Object.entries(plan.environment).map(
      ([name, value]) => `--build-arg=${name}=${value}`,
    );
    // With their values from the client's environment: they are in no layer.
    const proxies = Object.keys(given.toolEnvironment).filter((name) => isProxy(name));
    variables.push(...proxies.map((name) => `--build-arg=${name}`));
    const parameters = [...secrets, ...variables, `--file=${file}`, context];
    const notes = [dockerfileNote(plan, dockerfile), ...unknownSecrets(dockerfile, plan)];
    return { parameters, steps: new Map(), dockerfile, notes };
  }
  await fillContext(given, context);
  const { text, steps } = writeDockerfile(plan, { user: given.user, needsCode: needsCode(plan) });
  await writeFile(file, text);
  // All files of the app belong to it; its own list is for its own Dockerfile.
  await writeFile(`${file}${ignoreFile}`, "# Nothing is left out.\n");
  return {
    parameters: [...secrets, `--file=${file}`, context],
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
 * Packages that only the settings list, in the files that clients make of them for an upload: a
 * Dockerfile may copy those.
 */
async function writeLists(plan: BuildPlan, context: string): Promise<void> {
  for (const { file, lines } of packageLists(plan)) {
    if (lines.length === 0) continue;
    // What is there counts, also a link that leads nowhere.
    await writeFile(join(context, file), `${lines.join("\n")}\n`, { flag: "wx" }).catch(
      (error: unknown) => {
        if (errorCode(error) !== "EEXIST") throw error;
      },
    );
  }
}

/** Unpacks the app's files, and writes what the build needs beside them. */
async function fillContext(
  { plan, source, runtimeDir, signal }: Given,
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

/** These are read into the memory of the platform or of the engine. */
async function checkSize(file: string, name: string): Promise<void> {
  const { size } = await stat(file);
  if (size <= fileBytesMax) return;
  throw new BuildFailed(
    `${name} has ${size} bytes. At most ${fileBytesMax} are read: make it shorter, and ${buildAgain}.`,
  );
}

/** A link in a repository must not lead to a file of the machine. */
async function readInside(context: string, path: string): Promise<string> {
  const root = await realpath(context);
  const file = await realpath(join(root, path)).catch(() => null);
  if (file === null || !file.startsWith(`${root}${sep}`) || !(await stat(file)).isFile()) {
    throw new BuildFailed(
      `dockerfilePath is ${path}, but that is no file in the app's folder. Name one that is, and ${buildAgain}.`,
    );
  }
  await checkSize(file, path);
  return decodeText(await readFile(file), path);
}

/** One file for each secret of the app, and the options that hand them over. */
async function writeSecrets({ secrets, dir }: Given): Promise<string[]> {
  const folder = join(dir, "secrets");
  await mkdir(folder, { mode: 0o700 });
  for (const [name, value] of secrets)
    await writeFile(join(folder, name), value.reveal(), { mode: 0o600 });
  return [...secrets.keys()].map((name) => `--secret=id=${name},src=${join(folder, name)}`);
}

/**
 * Says which settings have no effect beside the app's own Dockerfile. Lists of packages have one
 * where it names their file.
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

/** Mounts of secrets in an app's own Dockerfile that will be empty. */
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

/** The options that hand over the variables of the build. */
async function writeVariables({ plan, dir, toolEnvironment }: Given): Promise<string[]> {
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
    .filter(([name]) => /^[A-Za-z_]\w*$/.test(name))
    .map(([name, value]) => `export ${name}=${shellQuoted(value)}\n`);
  const file = join(dir, "variables");
  await writeFile(file, lines.join(""), { mode: 0o600 });
  const secret = (id: string, source: string): string => `--secret=id=${id},src=${source}`;
  return [
    secret(buildSecrets.variables, file),
    ...(certificates === null ? [] : [secret(buildSecrets.certificates, certificates)]),
  ];
}

const certificateVariables = [
  "SSL_CERT_FILE",
  "PIP_CERT",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
];

/** The file of trusted certificates that the operator has named; null: those of the image count. */
async function certificatesOf(
  environment: Readonly<Record<string, string>>,
): Promise<string | null> {
  const named = certificateVariables
    .map((name) => environment[name])
    .find((value) => value !== undefined);
  if (named === undefined) return null;
  const found = await stat(named).catch(() => null);
  return found?.isFile() === true && found.size <= secretBytesMax ? named : null;
}

/** Proxies and package indexes, as far as they mean the same in a container. */
function forSteps(environment: Readonly<Record<string, string>>): Record<string, string> {
  const isForSteps = ([name, value]: readonly [string, string]): boolean =>
    (/^(?:PIP|UV)_/.test(name) || isProxy(name)) && !/^\/|file:\//.test(value);
  return Object.fromEntries(Object.entries(environment).filter(isForSteps));
}

/** Whether a variable names a proxy. */
export function isProxy(name: string): boolean {
  return /^(?:https?|ftp|all|no)_proxy$/i.test(name);
}
