// Reads the project's own files and package.json files for the rules.
import { globSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { Declared } from "./imports.ts";

/** The project's folder, without a slash at the end. */
export const projectDir = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** The workspaces that hold TypeScript. */
const workspaces = ["contract", "client", "server", "cli", "tools"] as const;

/**
 * Folders with a package.json: the workspaces, and the dashboard, whose packages are installed on
 * their own.
 */
export const packageFolders = [...workspaces, "dashboard"] as const;

/**
 * File contents by path (relative, with slashes) for the files that match a glob pattern, in
 * alphabetical order.
 */
export function readTree(pattern: string): Record<string, string> {
  const isLeftOut = (path: string): boolean =>
    /(^|[\\/])(node_modules|dist|coverage|__pycache__|\.[^\\/]+)([\\/]|$)/.test(path);
  const paths = globSync(pattern, { cwd: projectDir }).filter((path) => !isLeftOut(path));
  const files: Record<string, string> = {};
  for (const path of paths.sort())
    files[path.split(sep).join("/")] = readFileSync(join(projectDir, path), "utf8");
  return files;
}

/** The parts of a package.json that the rules use. */
export type Manifest = {
  readonly name: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
};

/** The package.json of a workspace, or of the project itself for "". */
export function readManifest(workspace: string): Manifest {
  return JSON.parse(readFileSync(join(projectDir, workspace, "package.json"), "utf8")) as Manifest;
}

/**
 * The packages that each workspace may import: in its source, and in tests, which may also use the
 * project's own.
 */
export function declaredPackages(): Declared {
  const everywhere = Object.keys(readManifest("").devDependencies ?? {});
  const declared: Record<string, { source: string[]; tests: string[] }> = {};
  for (const workspace of packageFolders) {
    const manifest = readManifest(workspace);
    const source = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
    declared[workspace] = {
      source,
      tests: [...source, ...Object.keys(manifest.devDependencies ?? {}), ...everywhere],
    };
  }
  return declared;
}
