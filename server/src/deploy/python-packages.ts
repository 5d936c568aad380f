// Decides which Python packages an app gets, from the settings and the files that may list them.
// Used by builds and by `slipway dev`. Pure except for `files`.
import { posix } from "node:path";
import type { PackageVersions } from "@slipway/contract/app-settings.ts";
import type { PythonProject } from "#drivers/builder.ts";
import type { AppFiles } from "./app-files.ts";
import type { Checked } from "./checked.ts";
import {
  foreignWarnings,
  isOfUv,
  projectNames,
  projectNote,
  pythonProject,
} from "./python-project.ts";
import * as requirements from "./requirements.ts";

/** The packages of an app. */
export type PythonPackages = {
  /** The lines of a requirements file. */
  readonly lines: readonly string[];
  /** The packages that uv installs; null: there are none. */
  readonly project: PythonProject | null;
  /** Lines for the build log. */
  readonly notes: readonly string[];
  readonly warnings: readonly string[];
};

/** The app's files, and what its settings say about packages. */
export type WantedPackages = {
  readonly files: AppFiles;
  /** The table of packages in the settings. */
  readonly pip: PackageVersions;
  /** The file that lists the packages, if the settings name one. */
  readonly path: string | undefined;
  /** The groups and extras of `pyproject.toml` that are installed too. */
  readonly groups: readonly string[];
  /** The start command of a custom app; empty with the cortex runtime. */
  readonly entrypoint: readonly string[];
  /** True when the app's own Dockerfile installs its packages. */
  readonly hasDockerfile: boolean;
};

const usualFile = "requirements.txt";

/**
 * The packages, or a sentence that says what is wrong. Throws `Fault("invalid")` for a file that
 * cannot be read.
 */
export function pythonPackages(request: WantedPackages): Checked<PythonPackages> {
  const packages = listedPackages(request);
  return packages.ok ? { ok: true, value: withServer(request, packages.value) } : packages;
}

/**
 * Returns the packages of the first source that lists any: the table, the file that the settings
 * name, requirements.txt, then uv.lock or pyproject.toml.
 */
function listedPackages({
  files,
  pip,
  path,
  groups,
  hasDockerfile,
}: WantedPackages): Checked<PythonPackages> {
  const namedFile = path === undefined ? undefined : posix.normalize(path);
  if (Object.keys(pip).length > 0)
    return withLines(requirements.pipRequirements(pip), unusedNotes(pip, files));
  if (namedFile !== undefined && !isOfUv(namedFile))
    return withLines(requirements.fileRequirements(namedFile, files.readText), []);
  if (namedFile === undefined && files.has(usualFile)) {
    const note = `The settings list no packages: those in ${usualFile} are installed.`;
    return withLines(requirements.fileRequirements(usualFile, files.readText), [note]);
  }
  if (hasDockerfile) return { ok: true, value: noPackages };
  const project = pythonProject(files, groups);
  if (!project.ok) return project;
  if (namedFile !== undefined && (project.value === null || !files.has(namedFile))) {
    return {
      ok: false,
      reason: `dependencies.paths.pip names ${namedFile}, which is not there or lists no packages.`,
    };
  }
  if (project.value === null)
    return { ok: true, value: { ...noPackages, warnings: foreignWarnings(files) } };
  return {
    ok: true,
    value: { ...noPackages, project: project.value, notes: [projectNote(project.value)] },
  };
}

const noPackages: PythonPackages = { lines: [], project: null, notes: [], warnings: [] };

function withLines(lines: Checked<string[]>, notes: readonly string[]): Checked<PythonPackages> {
  return lines.ok ? { ok: true, value: { ...noPackages, lines: lines.value, notes } } : lines;
}

/**
 * A note that requirements.txt is not installed; empty where it lists the same packages, as when a
 * client has made it from the table.
 */
function unusedNotes(pip: PackageVersions, { has, readText }: AppFiles): readonly string[] {
  if (!has(usualFile)) return [];
  const table = requirements.pipRequirements(pip);
  const file = requirements.fileRequirements(usualFile, readText);
  if (table.ok && file.ok && normalForm(table.value) === normalForm(file.value)) return [];
  return [`The settings list packages: those in ${usualFile} are not installed.`];
}

/**
 * Makes equal lists comparable: clients write names in lower case, and `==` even before a version
 * that begins with `~=`.
 */
function normalForm(lines: readonly string[]): string {
  const forms = lines.map((line) => line.toLowerCase().replaceAll(/\s/g, "").replace("==~=", "~="));
  return JSON.stringify(forms.sort());
}

/** Adds the server that a custom app starts with, if the app's packages lack it. */
function withServer(
  { files, entrypoint }: WantedPackages,
  packages: PythonPackages,
): PythonPackages {
  // The "." stands for the packages that the project lists, so that the list is not empty.
  const projectLines =
    packages.project === null ? [] : [".", ...projectNames(files, ["uvicorn", "gunicorn"])];
  const server = requirements.unlistedServer(entrypoint, [...packages.lines, ...projectLines]);
  if (server === null) return packages;
  const note = `The entrypoint starts ${server}, which is not in the app's packages: it is installed too.`;
  return { ...packages, lines: [...packages.lines, server], notes: [...packages.notes, note] };
}
