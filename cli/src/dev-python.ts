// The Python that `slipway dev` runs an app with: a virtual environment below the user's cache with
// the packages that the app lists, made once for each list.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { once } from "node:events";
import { join } from "node:path";
import type { AppFiles } from "@slipway/server/src/deploy/app-files.ts";
import { pythonPackages } from "@slipway/server/src/deploy/python-packages.ts";
import type { PythonProject } from "@slipway/server/src/drivers/builder.ts";
import { projectCommand } from "@slipway/server/src/drivers/project-command.ts";
import { tableOf, type AppFolder } from "./app-folder.ts";
import type { Machine } from "./machine.ts";
import { Refused } from "./refused.ts";
import { readTextFile } from "./text-file.ts";

/** An environment that is ready. */
export type DevPython = { readonly folder: string; readonly program: string };

const probeMs = 20_000;
const installMs = 1_800_000;
/** Environments that were not used for the longest time are removed beyond these. */
const environmentsMax = 20;
const readyMark = ".slipway-ready";
/** The list of packages, which is in the environment's folder while pip needs it. */
const listName = "requirements-of-app.txt";

/**
 * Throws `Refused` that says what is missing, or which packages cannot be installed. `signal` ends
 * an installation.
 */
export async function devPython(
  folder: AppFolder,
  machine: Machine,
  signal: AbortSignal,
): Promise<DevPython> {
  const { packages, project } = packagesOf(folder);
  const python = findPython(folder);
  const cache = join(
    machine.environment["XDG_CACHE_HOME"] || join(machine.homeFolder, ".cache"),
    "slipway",
    "dev",
  );
  const key = createHash("sha256")
    .update(JSON.stringify([python, packages, ...(project === null ? [] : [project])]))
    .digest("hex")
    .slice(0, 20);
  const made = { folder: join(cache, key), program: join(cache, key, "bin/python") };
  if (existsSync(join(made.folder, readyMark))) {
    utimesSync(made.folder, new Date(), new Date());
    return made;
  }
  rmSync(made.folder, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  const many = packages.length === 1 ? "1 package" : `${packages.length} packages`;
  const what = project === null ? many : "the packages of pyproject.toml";
  const hasPackages = packages.length > 0 || project !== null;
  if (hasPackages) machine.tell(`Installing ${what} into ${made.folder} …`);
  const pipWords = hasPackages ? [] : ["--without-pip"];
  await run([python.program, "-m", "venv", ...pipWords, made.folder], { cwd: folder.path, signal });
  const pip = ["-m", "pip", "install", "--disable-pip-version-check", "--quiet"];
  if (project !== null) {
    await run([made.program, ...pip, "uv"], { cwd: folder.path, signal });
    const uv = join(made.folder, "bin/uv");
    const command = projectCommand(project, { uv, python: made.program });
    const variables = { UV_PROJECT_ENVIRONMENT: made.folder, VIRTUAL_ENV: made.folder };
    await run(command, { cwd: folder.path, signal, variables });
  }
  if (packages.length > 0) {
    const list = join(made.folder, listName);
    writeFileSync(list, `${packages.join("\n")}\n`);
    await run([made.program, ...pip, "-r", list], { cwd: folder.path, signal });
  }
  writeFileSync(join(made.folder, readyMark), "");
  removeOld(cache);
  return made;
}

type AppPackages = { readonly packages: readonly string[]; readonly project: PythonProject | null };

/** As a build of the platform would have them: lines for pip, and what uv installs. */
function packagesOf({ settings, path, custom, toml }: AppFolder): AppPackages {
  const dependencies = tableOf(settings["dependencies"]);
  const inline = Object.fromEntries(
    Object.entries(tableOf(dependencies["pip"])).map(([name, version]) => [name, String(version)]),
  );
  const paths = tableOf(dependencies["paths"]);
  const groups = dependencies["groups"];
  const planned = pythonPackages({
    files: filesOf(path),
    pip: inline,
    path: typeof paths["pip"] === "string" ? paths["pip"] : undefined,
    hasDockerfile: false,
    groups: Array.isArray(groups) ? groups.map(String) : [],
    entrypoint: custom !== null && typeof custom.entrypoint !== "string" ? custom.entrypoint : [],
  });
  if (!planned.ok) throw new Refused(`${toml?.file ?? "requirements.txt"}: ${planned.reason}`);
  const { lines, project } = planned.value;
  return { packages: lines, project };
}

function filesOf(folder: string): AppFiles {
  const has = (file: string): boolean =>
    statSync(join(folder, file), { throwIfNoEntry: false })?.isFile() === true;
  const readText = (file: string): string | null =>
    has(file) ? readTextFile(join(folder, file), file) : null;
  return { has, readText, names: () => [], pythonProblem: () => null };
}

type FoundPython = { readonly program: string; readonly version: string };

/** `deployment.python_version`, else the usual one of this machine. */
function findPython({ settings, toml }: AppFolder): FoundPython {
  const wanted = tableOf(settings["deployment"])["python_version"];
  const name = typeof wanted === "string" ? `python${wanted}` : "python3";
  const code = "import sys, venv; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable)";
  const { status, stdout } = spawnSync(name, ["-I", "-c", code], {
    encoding: "utf8",
    timeout: probeMs,
  });
  const [version = "", program = ""] = stdout?.trim().split("\n") ?? [];
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (status === 0 && major === 3 && minor >= 8) return { program, version };
  const what = `${name} with its venv module is not on this machine`;
  const how =
    typeof wanted === "string" ? ` Install it, or change python_version in ${toml?.file}.` : "";
  throw new Refused(
    `${what}, and slipway dev runs the app with it.${how} To see which Pythons there are: slipway doctor`,
  );
}

async function run(
  [file = "", ...words]: readonly string[],
  {
    cwd,
    signal,
    variables = {},
  }: { cwd: string; signal: AbortSignal; variables?: Readonly<Record<string, string>> },
): Promise<void> {
  const env = { ...process.env, ...variables };
  // In a group of its own, which the signal of the caller reaches and Ctrl-C does not.
  const child = spawn(file, words, {
    cwd,
    env,
    stdio: ["ignore", 2, 2],
    signal,
    timeout: installMs,
    detached: true,
  });
  const [code] = (await once(child, "close")) as [number | null];
  if (code === 0) return;
  const isVenv = words.includes("venv");
  const why = isVenv
    ? "The virtual environment cannot be made; see above. On Debian, python3-venv may be missing."
    : "The packages cannot be installed; see above.";
  throw new Refused(why);
}

function removeOld(cache: string): void {
  const all = readdirSync(cache).map((name) => ({
    path: join(cache, name),
    ms: statSync(join(cache, name)).mtimeMs,
  }));
  for (const { path } of all.toSorted((one, other) => other.ms - one.ms).slice(environmentsMax)) {
    rmSync(path, { recursive: true, force: true });
  }
}
