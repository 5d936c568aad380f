// Finds what users other than root can change in a program that root is about to run.
import { lstatSync, readdirSync, realpathSync, type Stats } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Installation } from "./installation.ts";

/** Groups of people begin here; those below, such as `staff`, are of the system. */
const groupOfPeopleMin = 1000;

/**
 * A path of the program, of its Node.js or of the folders above them that somebody other than root
 * can change; null: there is none. What the platform itself writes is left out: its data folder.
 */
export function changeableByOthers({ root, node, dataDir }: Installation): string | null {
  const program = realpathSync(root);
  const programs = [program, realpathSync(node)];
  const above = new Set(programs.flatMap(foldersAbove));
  return [...above].find(isChangeable) ?? changeableBelow(program, resolve(dataDir));
}

/** The path itself and the folders that it is in. */
function foldersAbove(path: string): readonly string[] {
  return dirname(path) === path ? [path] : [path, ...foldersAbove(dirname(path))];
}

function changeableBelow(folder: string, leftOut: string): string | null {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (path === leftOut) continue;
    if (isChangeable(path)) return path;
    const found = entry.isDirectory() ? changeableBelow(path, leftOut) : null;
    if (found !== null) return found;
  }
  return null;
}

function isChangeable(path: string): boolean {
  const stats = lstatSync(path);
  return stats.uid !== 0 || (!stats.isSymbolicLink() && isWritable(stats));
}

/** In a sticky folder such as /tmp, others cannot replace what is root's. */
function isWritable({ mode, gid }: Stats): boolean {
  const isSticky = (mode & 0o1000) !== 0;
  const isWritableByGroup = (mode & 0o020) !== 0 && gid >= groupOfPeopleMin;
  return !isSticky && ((mode & 0o002) !== 0 || isWritableByGroup);
}
