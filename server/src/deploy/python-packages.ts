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
  readonly project: PythonProject | null;
  /** For the build log. */
  readonly notes: readonly string[];
  readonly warnings: readonly string[];
};

/** What the settings say about them. */
export type WantedPackages = {
  readonly files: AppFiles;
  readonly pip: PackageVersions;
  /** The file that lists them. */
  readonly path: string | undefined;
  readonly groups: readonly string[];
  /** Empty with the runtime cortex. */
  readonly entrypoint: readonly string[];
  /** The app's own Dockerfile installs what it needs. */
  readonly hasDockerfile: boolean;
};

const usualFile = "requirements.txt";

/**
 * The packages, or a sentence that says what is wrong. Throws `Fault("invalid")` for a file that
 * cannot be read.
 */
export function pythonPackages(request: WantedPackages): Checked<PythonPackages> {
  const found = listedPackages(request);
  return found.ok ? { ok: true, value: withServer(request, found.value) } : found;
}

/**
 * Returns the packages of the first source that lists any: the table, the file that is named,
 * requirements.txt, then uv.lock or pyproject.toml.
 */
function listedPackages({
  files,
  pip,
  path,
  groups,
  hasDockerfile,
}: WantedPackages): Checked<PythonPackages> {
  const named = path === undefined ? undefined : posix.normalize(path);
  if (Object.keys(pip).length > 0)
    return listed(requirements.pipRequirements(pip), unusedNotes(pip, files));
  if (named !== undefined && !isOfUv(named))
    return listed(requirements.fileRequirements(named, files.readText), []);
  if (named === undefined && files.has(usualFile)) {
    const note = `The settings list no packages: those in ${usualFile} are installed.`;
    return listed(requirements.fileRequirements(usualFile, files.readText), [note]);
  }
  if (hasDockerfile) return { ok: true, value: none };
  const project = pythonProject(files, groups);
  if (!project.ok) return project;
  if (named !== undefined && (project.value === null || !files.has(named))) {
    return {
      ok: false,
      reason: `dependencies.paths.pip names ${named}, which is not there or lists no packages.`,
    };
  }
  if (project.value === null)
    return { ok: true, value: { ...none, warnings: foreignWarnings(files) } };
  return {
    ok: true,
    value: { ...none, project: project.value, notes: [projectNote(project.value)] },
  };
}

const none: PythonPackages = { lines: [], project: null, notes: [], warnings: [] };

function listed(lines: Checked<string[]>, notes: readonly string[]): Checked<PythonPackages> {
  return lines.ok ? { ok: true, value: { ...none, lines: lines.value, notes } } : lines;
}

/** Nothing where requirements.txt says the same, as when a client has made it of the table. */
function unusedNotes(pip: PackageVersions, { has, readText }: AppFiles): readonly string[] {
  if (!has(usualFile)) return [];
  const table = requirements.pipRequirements(pip);
  const file = requirements.fileRequirements(usualFile, readText);
  if (table.ok && file.ok && plain(table.value) === plain(file.value)) return [];
  return [`The settings list packages: those in ${usualFile} are not installed.`];
}

/** Clients write names in lower case, and two signs where a version has its own. */
function plain(lines: readonly string[]): string {
  const forms = lines.map((line) => line.toLowerCase().replaceAll(/\s/g, "").replace("==~=", "~="));
  return JSON.stringify(forms.sort());
}

/** A custom app may start with a server that it does not list. */
function withServer(
  { files, entrypoint }: WantedPackages,
  packages: PythonPackages,
): PythonPackages {
  // The dot stands for what the project lists.
  const ofProject =
    packages.project === null ? [] : [".", ...projectNames(files, ["uvicorn", "gunicorn"])];
  const server = requirements.unlistedServer(entrypoint, [...packages.lines, ...ofProject]);
  if (server === null) return packages;
  const note = `The entrypoint starts ${server}, which is not in the app's packages: it is installed too.`;
  return { ...packages, lines: [...packages.lines, server], notes: [...packages.notes, note] };
}
