// What of an app's packages stands in files that other tools write: `pyproject.toml` and `uv.lock`,
// which uv installs, and those of which the build log says how to turn them into one of these. Pure
// except for `files`.
import { createHash } from "node:crypto";
import { parse } from "smol-toml";
import type { PythonProject } from "#drivers/builder.ts";
import { tomlProblem } from "#lib/operator-file.ts";
import type { AppFiles } from "./app-files.ts";
import type { Checked } from "./checked.ts";

type Table = Readonly<Record<string, unknown>>;

const projectFile = "pyproject.toml";
const lockFile = "uv.lock";

/** Sources of `tool.uv.sources` and of `uv.lock` that are in the app's folder. */
const ownSources = ["path", "workspace"];
const ownLocked = /^source = \{ (?:editable|directory|path|virtual) = "(?!\.")/m;

/** Files that other tools write, and how their packages come to be installed. */
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

/** Whether the app's folder has a file that uv installs. */
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
  const read = tableIn(text);
  if (!read.ok) return read;
  const project = tableOf(read.value["project"]);
  const isDynamic = listOf(project["dynamic"]).includes("dependencies");
  const isListed = listOf(project["dependencies"]).length > 0 || isDynamic || chosen.length > 0;
  if (lock === null && !isListed) return { ok: true, value: null };
  const known = {
    groups: tableOf(read.value["dependency-groups"]),
    extras: tableOf(project["optional-dependencies"]),
  };
  const found = chosenOf(chosen, known);
  if (!found.ok) return found;
  const needsCode = isDynamic || ownLocked.test(lock ?? "") || hasOwnSources(read.value);
  const digest = createHash("sha256")
    .update(JSON.stringify([text, lock]))
    .digest("hex");
  return { ok: true, value: { isLocked: lock !== null, ...found.value, needsCode, digest } };
}

/** How the packages are installed that other tools have listed; empty: there are no such files. */
export function foreignWarnings(files: AppFiles): readonly string[] {
  const text = files.readText(projectFile);
  const read = text === null ? null : tableIn(text);
  const isPoetry =
    read?.ok === true &&
    tableOf(tableOf(read.value["tool"])["poetry"])["dependencies"] !== undefined;
  const found = foreignFiles.filter(([file]) => files.has(file));
  const poetry: (typeof found)[number] = [
    projectFile,
    "make a requirements.txt of it: poetry export -o requirements.txt",
  ];
  const named = isPoetry && !files.has("poetry.lock") ? [poetry, ...found] : found;
  return named.map(([file, advice]) => `${file} is not installed: ${advice}.`);
}

/** Returns which of these names the project's files mention as packages. */
export function projectNames(files: AppFiles, names: readonly string[]): readonly string[] {
  const text = [projectFile, lockFile].map((file) => files.readText(file) ?? "").join("\n");
  return names.filter((name) => new RegExp(`["']${name}\\b`, "i").test(text));
}

/** A word for the build log. */
export function projectNote({ isLocked, groups, extras }: PythonProject): string {
  const chosen = [...groups, ...extras];
  const more = chosen.length === 0 ? "" : `, with ${chosen.join(", ")}`;
  return `The settings list no packages: those in ${isLocked ? lockFile : projectFile} are installed${more}.`;
}

/** Compares names as Python does. */
function chosenOf(
  chosen: readonly string[],
  known: { readonly groups: Table; readonly extras: Table },
): Checked<Pick<PythonProject, "groups" | "extras">> {
  const nameIn = (table: Table, name: string): string | undefined =>
    Object.keys(table).find((one) => normal(one) === normal(name));
  const groups: string[] = [];
  const extras: string[] = [];
  for (const name of chosen) {
    const group = nameIn(known.groups, name);
    const extra = nameIn(known.extras, name);
    if (group !== undefined) groups.push(group);
    else if (extra !== undefined) extras.push(extra);
    else {
      const all = [...Object.keys(known.groups), ...Object.keys(known.extras)];
      const there = all.length === 0 ? "it has none" : `it has ${all.join(", ")}`;
      return {
        ok: false,
        reason: `dependencies.groups names ${name}, which is no group of ${projectFile}; ${there}.`,
      };
    }
  }
  return { ok: true, value: { groups, extras } };
}

function normal(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, "-");
}

function hasOwnSources(table: Table): boolean {
  const sources = tableOf(tableOf(tableOf(table["tool"])["uv"])["sources"]);
  return Object.values(sources).some((source) =>
    [source].flat().some((one) => ownSources.some((name) => tableOf(one)[name] !== undefined)),
  );
}

function tableIn(text: string): Checked<Table> {
  try {
    return { ok: true, value: parse(text, { maxDepth: 100 }) };
  } catch (error) {
    const { at, reason } = tomlProblem(error);
    return { ok: false, reason: `${projectFile} is not valid TOML at ${at}: ${reason}.` };
  }
}

function tableOf(value: unknown): Table {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Table)
    : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
