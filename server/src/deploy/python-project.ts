// Reads an app's packages from files that other tools write: uv installs what `pyproject.toml` and
// `uv.lock` list; for the files of further tools the build log says how to convert them. Pure
// except for `files`.
import { createHash } from "node:crypto";
import { parse } from "smol-toml";
import type { PythonProject } from "#drivers/builder.ts";
import { isObject } from "#lib/is-object.ts";
import { tomlProblem } from "#lib/operator-file.ts";
import type { AppFiles } from "./app-files.ts";
import type { Checked } from "./checked.ts";

type Table = Readonly<Record<string, unknown>>;

const projectFile = "pyproject.toml";
const lockFile = "uv.lock";

/** The kinds of `tool.uv.sources` that name a folder or a file of the app. */
const localSources = ["path", "workspace"];
/**
 * A package in `uv.lock`, other than the project itself, that comes from a folder or a file of the
 * app.
 */
const localLocked = /^source = \{ (?:editable|directory|path|virtual) = "(?!\.")/m;

/** Files that other tools write, and advice on how to get their packages installed. */
const foreignFiles: readonly (readonly [file: string, advice: string])[] = [
  ["Pipfile", "make a requirements.txt of it: pipenv requirements > requirements.txt"],
  ["poetry.lock", "make a requirements.txt of it: poetry export -o requirements.txt"],
  ["pdm.lock", "make a requirements.txt of it: pdm export -o requirements.txt"],
  ["setup.py", 'write a requirements.txt with the line "."'],
  ["setup.cfg", 'write a requirements.txt with the line "."'],
  [
    "environment.yml",
    "list its packages below [cerebrium.dependencies.conda] and [cerebrium.dependencies.pip]",
  ],
  [
    "environment.yaml",
    "list its packages below [cerebrium.dependencies.conda] and [cerebrium.dependencies.pip]",
  ],
];

/** True for a file whose packages uv installs. */
export function isOfUv(path: string): boolean {
  return path === projectFile || path === lockFile;
}

/**
 * The packages of `pyproject.toml`, with those of the groups; null: there is no such file, or it
 * names none. Throws `Fault("invalid")` for a file that cannot be read.
 */
export function pythonProject(
  files: AppFiles,
  chosen: readonly string[],
): Checked<PythonProject | null> {
  const text = files.readText(projectFile);
  const lock = files.has(lockFile) ? files.readText(lockFile) : null;
  if (text === null) {
    const reason = `There is a ${lockFile}, but no ${projectFile} beside it, without which uv cannot install it. Add that file.`;
    return lock === null ? { ok: true, value: null } : { ok: false, reason };
  }
  const parsed = tableIn(text);
  if (!parsed.ok) return parsed;
  const project = tableOf(parsed.value["project"]);
  // Dynamic dependencies are those that the project's own code computes.
  const isDynamic = listOf(project["dynamic"]).includes("dependencies");
  const isListed = listOf(project["dependencies"]).length > 0 || isDynamic || chosen.length > 0;
  if (lock === null && !isListed) return { ok: true, value: null };
  const known = {
    groups: tableOf(parsed.value["dependency-groups"]),
    extras: tableOf(project["optional-dependencies"]),
  };
  const selection = selectGroups(chosen, known);
  if (!selection.ok) return selection;
  const needsCode = isDynamic || localLocked.test(lock ?? "") || hasLocalSources(parsed.value);
  const digest = createHash("sha256")
    .update(JSON.stringify([text, lock]))
    .digest("hex");
  return { ok: true, value: { isLocked: lock !== null, ...selection.value, needsCode, digest } };
}

/**
 * Advice on how to install the packages that files of other tools list; empty: there are no such
 * files.
 */
export function foreignWarnings(files: AppFiles): readonly string[] {
  const text = files.readText(projectFile);
  const parsed = text === null ? null : tableIn(text);
  const isPoetry =
    parsed?.ok === true &&
    tableOf(tableOf(parsed.value["tool"])["poetry"])["dependencies"] !== undefined;
  const present = foreignFiles.filter(([file]) => files.has(file));
  // A project of Poetry may have no lock file; its packages are then in `pyproject.toml` alone.
  const poetry: (typeof present)[number] = [
    projectFile,
    "make a requirements.txt of it: poetry export -o requirements.txt",
  ];
  const named = isPoetry && !files.has("poetry.lock") ? [poetry, ...present] : present;
  return named.map(([file, advice]) => `${file} is not installed: ${advice}.`);
}

/** Returns which of these names the project's files mention as packages. */
export function projectNames(files: AppFiles, names: readonly string[]): readonly string[] {
  const text = [projectFile, lockFile].map((file) => files.readText(file) ?? "").join("\n");
  return names.filter((name) => new RegExp(`["']${name}\\b`, "i").test(text));
}

/** A note for the build log: whose packages are installed. */
export function projectNote({ isLocked, groups, extras }: PythonProject): string {
  const chosen = [...groups, ...extras];
  const addition = chosen.length === 0 ? "" : `, with ${chosen.join(", ")}`;
  return `The settings list no packages: those in ${isLocked ? lockFile : projectFile} are installed${addition}.`;
}

/** Finds the chosen groups and extras. Compares names as Python does. */
function selectGroups(
  chosen: readonly string[],
  known: { readonly groups: Table; readonly extras: Table },
): Checked<Pick<PythonProject, "groups" | "extras">> {
  const nameIn = (table: Table, name: string): string | undefined =>
    Object.keys(table).find((key) => normalName(key) === normalName(name));
  const groups: string[] = [];
  const extras: string[] = [];
  for (const name of chosen) {
    const group = nameIn(known.groups, name);
    const extra = nameIn(known.extras, name);
    if (group !== undefined) groups.push(group);
    else if (extra !== undefined) extras.push(extra);
    else {
      const all = [...Object.keys(known.groups), ...Object.keys(known.extras)];
      const choice = all.length === 0 ? "it has none" : `it has ${all.join(", ")}`;
      return {
        ok: false,
        reason: `dependencies.groups names ${name}, which is no group of ${projectFile}; ${choice}.`,
      };
    }
  }
  return { ok: true, value: { groups, extras } };
}

function normalName(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, "-");
}

/** Whether uv is to install some packages from folders or files of the app. */
function hasLocalSources(table: Table): boolean {
  const sources = tableOf(tableOf(tableOf(table["tool"])["uv"])["sources"]);
  return Object.values(sources)
    .flat()
    .some((source) => localSources.some((kind) => tableOf(source)[kind] !== undefined));
}

function tableIn(text: string): Checked<Table> {
  try {
    // The limit keeps a deeply nested text from exhausting the stack.
    return { ok: true, value: parse(text, { maxDepth: 100 }) };
  } catch (error) {
    const { at, reason } = tomlProblem(error);
    return { ok: false, reason: `${projectFile} is not valid TOML at ${at}: ${reason}.` };
  }
}

/** The value if it is a table, else an empty table. */
function tableOf(value: unknown): Table {
  return isObject(value) ? value : {};
}

/** The value if it is a list, else an empty list. */
function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
