// Reads small text files of an app's folder and never follows a path out of it.
import { lstatSync, opendirSync, readFileSync, realpathSync, type Dir, type Stats } from "node:fs";
import { join, posix, sep } from "node:path";
import { decodeText, pythonProblem } from "#lib/decoded-text.ts";
import { Fault } from "#lib/fault.ts";
import type { ReadText } from "./requirements.ts";

/** The maximum size of a text file: package lists and settings are far smaller. */
export const textBytesMax = 1_000_000;
/**
 * The maximum size of a source file that is checked. A larger file holds data in the form of a
 * program: Python itself reports its errors.
 */
const sourceBytesMax = 20_000_000;

/** Names of an app's settings file; the first existing one applies. */
export const tomlNames = ["slipway.toml", "cerebrium.toml"] as const;

/** The files of an app, by their paths relative to its folder. */
export type AppFiles = {
  readonly readText: ReadText;
  /** True for a regular file inside the folder. */
  readonly has: (path: string) => boolean;
  /**
   * The paths of the files in the folder and in its direct subfolders, for a message. Very long
   * lists are cut.
   */
  readonly names: () => readonly string[];
  /**
   * Why Python cannot read a source file; null: it can, or the file is missing or too large to
   * check.
   */
  readonly pythonProblem: (path: string) => string | null;
};

/** Returns the files of one folder. */
export function appFiles(appDir: string): AppFiles {
  const root = realpathSync(appDir);
  return {
    readText: (path) => {
      const file = findFile(root, path);
      if (file === null) return null;
      checkTextSize(file.stats.size, path);
      return decodeText(readFileSync(file.real), path);
    },
    has: (path) => findFile(root, path) !== null,
    names: () => namesIn(root),
    pythonProblem: (path) => {
      const file = findFile(root, path);
      if (file === null || file.stats.size > sourceBytesMax) return null;
      return pythonProblem(readFileSync(file.real), path);
    },
  };
}

/** The maximum number of entries that are read from one folder. */
const namesMax = 500;
/** The maximum number of subfolders whose entries are read. */
const foldersMax = 50;

function namesIn(root: string): string[] {
  const top = entriesOf(root, "");
  const folders = top.filter(({ isFolder }) => isFolder).slice(0, foldersMax);
  const all = [...top, ...folders.flatMap(({ path }) => entriesOf(root, path))];
  // Only links are resolved: a system call for every file would hold up the platform.
  const isRegularFile = ({ path, isFolder, isFile }: Entry): boolean =>
    isFile || (!isFolder && findFile(root, path) !== null);
  return all.filter(isRegularFile).map(({ path }) => path);
}

type Entry = {
  readonly path: string;
  readonly isFolder: boolean;
  /** True for a regular file, false for a link. */
  readonly isFile: boolean;
};

/**
 * The entries of one folder, sorted by path. Hidden entries, and names that no message can show,
 * are left out.
 */
function entriesOf(root: string, path: string): Entry[] {
  const entries: Entry[] = [];
  let folder: Dir;
  try {
    folder = opendirSync(join(root, path));
  } catch {
    // The folder is gone or unreadable: the message names the other files.
    return entries;
  }
  try {
    for (let read = 0; read < namesMax; read += 1) {
      const entry = folder.readSync();
      if (entry === null) break;
      if (!/^[\w@ +-][\w@ .+-]{0,99}$/.test(entry.name)) continue;
      entries.push({
        path: posix.join(path, entry.name),
        isFolder: entry.isDirectory(),
        isFile: entry.isFile(),
      });
    }
    return entries.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  } finally {
    folder.closeSync();
  }
}

/**
 * The real path and the stats of a regular file inside the folder; null when the path is missing,
 * is not a regular file or leads out of the folder.
 */
function findFile(
  root: string,
  path: string,
): { readonly real: string; readonly stats: Stats } | null {
  try {
    const real = realpathSync(join(root, path));
    const stats = lstatSync(real);
    return real.startsWith(root + sep) && stats.isFile() ? { real, stats } : null;
  } catch {
    return null;
  }
}

/** Throws `Fault("invalid")` for a text file that is too large to be read. */
export function checkTextSize(bytes: number, name: string): void {
  if (bytes <= textBytesMax) return;
  throw new Fault(
    "invalid",
    `${name} is larger than 1 MB, the maximum for such a file. Make it smaller.`,
  );
}

/** The repository's settings file; null when it has none. */
export function readAppToml(
  readText: ReadText,
): { readonly name: string; readonly text: string } | null {
  for (const name of tomlNames) {
    const text = readText(name);
    if (text !== null) return { name, text };
  }
  return null;
}
