// Links the libraries of the PostgreSQL that npm installed. Its package lists the links, which a
// script makes after the installation. Where npm runs no scripts they are missing, and are made
// beside the database, since the package's folder may belong to somebody else.
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";

/** A link at `target` that leads to `source`; both are paths below the package's folder. */
type Link = { readonly source: string; readonly target: string };

/**
 * Makes the links that the package lacks, in a folder below `folder`, and returns that folder; null
 * when none is missing. `packageDir` is the root of the package.
 */
export function linkLibraries(packageDir: string, folder: string): string | null {
  const list = join(packageDir, "native/pg-symlinks.json");
  if (!existsSync(list)) return null;
  const links = JSON.parse(readFileSync(list, "utf8")) as readonly Link[];
  const missing = links.filter(({ target }) => !existsSync(join(packageDir, target)));
  const libraries = join(folder, "libraries");
  // Links of an earlier version may lead elsewhere.
  rmSync(libraries, { recursive: true, force: true });
  if (missing.length === 0) return null;
  mkdirSync(libraries);
  for (const { source, target } of missing)
    symlinkSync(join(packageDir, source), join(libraries, basename(target)));
  return libraries;
}
