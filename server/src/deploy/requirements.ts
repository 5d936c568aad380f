// Converts an app's package settings to input for pip, apt and conda. Pure except for `readText`,
// which reads files of the app's folder.
import { posix } from "node:path";
import type { PackageVersions } from "@slipway/contract/app-settings.ts";
import type { Checked } from "./checked.ts";

/**
 * Text of a file, by its path relative to the app's folder; null when it is missing. Throws
 * `Fault("invalid")` for a file that cannot be read.
 */
export type ReadText = (path: string) => string | null;

/** The maximum number of files of one list: it may include others, and these again others. */
const filesMax = 50;
/** The maximum number of lines in all these files together. */
const linesMax = 10_000;

/** A package with extras, as in `uvicorn[standard]`. */
const packageForm = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\s*\[[A-Za-z0-9._,\s-]*\])?$/;
/** `git+https://…`, `https://…/x.whl`, `name @ https://…`. */
const addressForm =
  /^(?:[A-Za-z0-9._[\],-]+\s*@\s*)?(?:(?:git|hg|svn|bzr)\+)?(?:https?|ssh|git):\/\/\S+$/;
/** One version, as in `1.26` or `2.*`. */
const versionForm = /^[A-Za-z0-9][A-Za-z0-9.*+!_-]*$/;
/** One or more conditions, as in `>=1.2,<2`. */
const specifierForm =
  /^(?:(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9][A-Za-z0-9.*+!_-]*\s*(?:,\s*|$))+$/;

/**
 * Converts a table of names and versions to lines for pip, sorted by name. `""`, `*` and `latest`
 * mean any version.
 */
export function pipRequirements(packages: PackageVersions): Checked<string[]> {
  const lines: string[] = [];
  for (const [name, version] of Object.entries(packages).sort(byName)) {
    const line = pipLine(name.trim(), version.trim());
    if (!line.ok) return line;
    lines.push(line.value);
  }
  return { ok: true, value: lines };
}

function pipLine(name: string, version: string): Checked<string> {
  const isAny = isAnyVersion(version);
  if (addressForm.test(name)) {
    // The version of an address follows the @: a branch, a tag or a commit. None of these contains
    // white space; a semicolon would begin a condition, and # a comment. Such a version is ignored.
    if (isAny || /[\s;#]/.test(version)) return { ok: true, value: name };
    return { ok: true, value: `${name}@${version.replace(/^[=@]+/, "")}` };
  }
  if (!packageForm.test(name)) {
    return refused(
      name,
      version,
      "a package name such as numpy or uvicorn[standard], or an address such as git+https://…",
    );
  }
  if (isAny) return { ok: true, value: name };
  // A condition may follow a semicolon, as in `>=1; python_version < "3.12"`.
  const [numbers = "", ...condition] = version.split(";");
  const marker = condition.length === 0 ? "" : `; ${condition.join(";").trim()}`;
  // Other tools use a single equals sign.
  const specifier = numbers.trim().replace(/^=(?!=)\s*/, "==");
  if (specifierForm.test(specifier)) return { ok: true, value: `${name}${specifier}${marker}` };
  if (versionForm.test(specifier)) return { ok: true, value: `${name}==${specifier}${marker}` };
  return refused(
    name,
    version,
    'a version such as "1.2.3", a range such as ">=1.2,<2" or "~=1.4", or "latest"',
  );
}

/** Converts a table to names for apt: `ffmpeg`, `curl=7.88.1-10`. */
export function aptPackages(packages: PackageVersions): string[] {
  return namesWithVersion(packages, "=");
}

/** Converts a table to names for conda: `cuda`, `numpy==1.26`. */
export function condaPackages(packages: PackageVersions): string[] {
  return namesWithVersion(packages, "==");
}

/**
 * Lines of a file with one package each, the format of apt and conda lists; without comments and
 * empty lines.
 */
export function listedPackages(text: string): string[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.replace(/(^|\s)#.*$/, "").trim())
    .filter((line) => line !== "");
}

/**
 * Lines for pip from a requirements file of the app's folder. Inlines files included with -r, so
 * that the lines are complete; makes paths after -c relative to the app's folder, pip's working
 * directory.
 */
export function fileRequirements(file: string, readText: ReadText): Checked<string[]> {
  const lines: string[] = [];
  const readPaths: string[] = [];
  // Adds the lines of a file; returns why they cannot be added, null if they were.
  const include = (path: string, from: string | null): string | null => {
    // Files may include each other; each adds its lines only once.
    if (readPaths.includes(path)) return null;
    readPaths.push(path);
    if (readPaths.length > filesMax)
      return `${file} and the files that it names with -r are more than ${filesMax} files.`;
    const text = isInside(path) ? readText(path) : null;
    if (text === null) {
      return from === null
        ? `The file ${path}, which should list the packages, is not in the app's folder.`
        : `${from} names ${path} with -r, but that is not in the app's folder.`;
    }
    // A backslash at the end of a line joins it with the next one.
    for (const line of listedPackages(text.replaceAll(/\\\r?\n/g, ""))) {
      const option = /^(-r|--requirement|-c|--constraint)(?:\s*=\s*|\s*)(\S+)$/.exec(line);
      // Both texts are empty for a line without such an option.
      const [kind = "", target = ""] = option?.slice(1) ?? [];
      const isAddress = /^\w+:\/\//.test(target);
      const targetPath = target.startsWith("/") ? target : posix.join(posix.dirname(path), target);
      // pip itself reads what is at an address.
      if (option === null || isAddress) lines.push(line);
      else if (kind === "-r" || kind === "--requirement") {
        const failure = include(targetPath, path);
        if (failure !== null) return failure;
      } else if (isInside(targetPath)) lines.push(`-c ${targetPath}`);
      else return `${path} names ${target} with -c, which is not in the app's folder.`;
      if (lines.length > linesMax) return `${file} lists more than ${linesMax} lines.`;
    }
    return null;
  };
  const failure = include(posix.normalize(file), null);
  return failure === null ? { ok: true, value: lines } : { ok: false, reason: failure };
}

/** The package's name in pip's normalized form; null for options and addresses without a name. */
export function requirementName(line: string): string | null {
  const name = /^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[|@|[=<>!~;\s]|$)/.exec(line)?.[1];
  return name === undefined ? null : name.toLowerCase().replaceAll(/[-_.]+/g, "-");
}

function isInside(path: string): boolean {
  return !path.startsWith("/") && path.split("/")[0] !== "..";
}

function isAnyVersion(version: string): boolean {
  return version === "" || version === "*" || version.toLowerCase() === "latest";
}

function namesWithVersion(packages: PackageVersions, sign: string): string[] {
  return Object.entries(packages)
    .sort(byName)
    .map(([name, version]) => {
      const plain = version.trim().replace(/^=+\s*/, "");
      if (isAnyVersion(plain)) return name.trim();
      // A range such as ">=1.2" has its own sign.
      const isRange = /^[<>!~]/.test(plain);
      return isRange ? `${name.trim()}${plain}` : `${name.trim()}${sign}${plain}`;
    });
}

/** Orders names in the same way on every machine, whatever its language. */
function byName([a]: [string, string], [b]: [string, string]): number {
  if (a < b) return -1;
  return a > b ? 1 : 0;
}

function refused(name: string, version: string, allowed: string): Checked<string> {
  const entry = `${JSON.stringify(name)} = ${JSON.stringify(version)}`;
  return { ok: false, reason: `dependencies.pip has ${entry}, but pip needs ${allowed}.` };
}

/**
 * The server that a custom app starts with but does not list, to be installed as well; null:
 * nothing is to be added to `lines`. An app that lists no packages has gunicorn in its base image.
 */
export function unlistedServer(
  entrypoint: readonly string[],
  lines: readonly string[],
): string | null {
  const [program = "", ...rest] = entrypoint;
  const name = posix.basename(program);
  // In `python -m uvicorn …` the server stands behind `-m`.
  const server = /^python[0-9.]*$/.test(name) && rest[0] === "-m" ? rest[1] : name;
  const isAdded = server === "uvicorn" || (server === "gunicorn" && lines.length > 0);
  if (server === undefined || !isAdded) return null;
  return lines.some((line) => requirementName(line) === server) ? null : server;
}
