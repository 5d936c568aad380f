// The libraries of the PostgreSQL that npm installed: its package lists links between them, which a
// script makes after the installation. Where npm runs no scripts, the links are missing, and the
// package's folder may belong to somebody else, so that they are made beside the database.
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";

type Link = { readonly source: string; readonly target: string };

/**
 * Makes the links that the package lacks, in a folder below `folder`, and returns that folder; null
 * when none is missing. `packageDir`: the root of the package.
 */
export function linkLibraries(packageDir: string, folder: string): string | null {
  const list = join(packageDir, "native/pg-symlinks.json");
  if (!existsSync(list)) return null;
  const links = JSON.parse(readFileSync(list, "utf8")) as readonly Link[];
  const missing = links.filter(({ target }) => !existsSync(join(packageDir, target)));
  const libraries = join(folder, "libraries");
  // Those of an earlier version may lead elsewhere.
  rmSync(libraries, { recursive: true, force: true });
  if (missing.length === 0) return null;
  mkdirSync(libraries);
  for (const { source, target } of missing)
    symlinkSync(join(packageDir, source), join(libraries, basename(target)));
  return libraries;
}
