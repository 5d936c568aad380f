// The version in the project's package.json files, lock files and documents, for tools/release.ts.
// Pure functions over texts.

/** Documents that show the version: as the name of a client, or as all that a command prints. */
export const versionedDocuments = [
  "contract/openapi.json",
  "contract/src/examples.ts",
  "docs/guides/people-and-tokens.md",
] as const;

type Package = { version?: string; dependencies?: Record<string, string> };

/** A package.json with another version of itself and of the project's other packages. */
export function manifestWithVersion(text: string, version: string): string {
  const manifest = JSON.parse(text) as Package;
  setVersion(manifest, version);
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

/** A lock file with another version of the project's own packages, which node_modules lacks. */
export function lockWithVersion(text: string, version: string): string {
  const lock = JSON.parse(text) as Package & { packages: Record<string, Package> };
  setVersion(lock, version);
  for (const [path, one] of Object.entries(lock.packages)) {
    if (!path.includes("node_modules/")) setVersion(one, version);
  }
  return `${JSON.stringify(lock, null, 2)}\n`;
}

function setVersion(one: Package, version: string): void {
  if (one.version !== undefined) one.version = version;
  for (const name of Object.keys(one.dependencies ?? {})) {
    if (name.startsWith("@slipway/") && one.dependencies !== undefined)
      one.dependencies[name] = version;
  }
}

/** The version before a release, and its own. */
export type Versions = { readonly from: string; readonly to: string };

/** A document with another version. Throws an error that names a path without the earlier one. */
export function documentWithVersion(path: string, text: string, { from, to }: Versions): string {
  const shown = new RegExp(
    String.raw`(?<=^|slipway/)${from.replaceAll(".", String.raw`\.`)}(?=$| )`,
    "gm",
  );
  const changed = text.replace(shown, to);
  if (changed === text) throw new Error(`${path} shows no "slipway/${from}" and no line "${from}"`);
  return changed;
}

/** Whether a version is newer than another. Throws an error for what is not like 0.2.0. */
export function isNewer(version: string, than: string): boolean {
  const mine = numbersOf(version);
  const other = numbersOf(than);
  const index = mine.findIndex((number, at) => number !== other[at]);
  return index !== -1 && (mine[index] ?? 0) > (other[index] ?? 0);
}

function numbersOf(version: string): readonly number[] {
  if (!/^(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}$/.test(version)) {
    throw new Error(`"${version}" is not a version; write three numbers, such as 0.2.0`);
  }
  return version.split(".").map(Number);
}
