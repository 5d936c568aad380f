// The dependency tables of an app's TOML file: packages with versions, or files of the repository
// that list them.
import type { PackageVersions } from "@slipway/contract/app-settings.ts";
import { appFields } from "@slipway/contract/app-fields.ts";
import { refused } from "./refusal.ts";

/** The package installers; each has a table below `dependencies`. */
export const packageKinds = ["pip", "apt", "conda"] as const;
export type PackageKind = (typeof packageKinds)[number];

/** The maximum number of packages of one kind; no app needs as many. */
const packagesMax = 2000;
/** The maximum number of groups; no app needs as many. */
const groupsMax = 50;
/** The form of group names in Python's packaging standards. */
const groupForm = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$/;
/** Installers check names further; control characters would garble the files that list them. */
const nameForm = /^[^\x00-\x1f\x7f]{1,500}$/;

/**
 * Reads one table of package names and versions. Keeps versions as written; a number becomes its
 * text, with a warning. Throws `Fault("invalid")`.
 */
export function readPackages(
  path: string,
  value: unknown,
): { packages: PackageVersions; warnings: string[] } {
  if (
    typeof value !== "object" ||
    value === null ||
    Array.isArray(value) ||
    value instanceof Date
  ) {
    throw refused({ field: path, given: value, allowed: 'a table of the form name = "version"' });
  }
  const entries = Object.entries(value);
  if (entries.length > packagesMax) {
    throw refused({
      field: path,
      given: `${entries.length} packages`,
      allowed: `at most ${packagesMax} packages`,
    });
  }
  const warnings: string[] = [];
  const packages = entries.map(([name, version]: [string, unknown]): [string, string] => {
    const field = `${path}, package ${JSON.stringify(name.slice(0, 80))},`;
    if (!nameForm.test(name) || !name.isWellFormed()) {
      throw refused({ field, given: name, allowed: "a name without control characters" });
    }
    if (typeof version === "number" && Number.isFinite(version)) {
      warnings.push(
        `${field} has the number ${version} as its version; write it as a string, otherwise 2.10 becomes 2.1.`,
      );
      return [name, String(version)];
    }
    if (
      typeof version !== "string" ||
      !/^[^\x00-\x1f\x7f]{0,500}$/.test(version) ||
      !version.isWellFormed()
    ) {
      throw refused({
        field,
        given: version,
        allowed: 'a version such as "1.2.3", ">=1.2" or "latest"',
      });
    }
    return [name, version];
  });
  return { packages: Object.fromEntries(packages), warnings };
}

/** Reads the names of groups of pyproject.toml. */
export function readGroups(path: string, value: unknown): readonly string[] {
  const isName = (name: unknown): name is string =>
    typeof name === "string" && groupForm.test(name);
  if (Array.isArray(value) && value.length <= groupsMax && value.every(isName)) return value;
  throw refused({
    field: path,
    given: value,
    allowed: `a list of at most ${groupsMax} names, such as ["gpu"]`,
  });
}

/**
 * Reads the path of a file that lists packages. Throws `Fault("invalid")` when it leaves the
 * repository.
 */
export function readPath(path: string, value: unknown): string {
  // The path of a Dockerfile has the same form.
  const { form, allowed } = appFields.dockerfilePath;
  if (typeof value === "string" && value !== "" && value.isWellFormed() && form.test(value))
    return value;
  throw refused({ field: path, given: value, allowed });
}
