// Reads small text files of an app's folder and never follows a path out of it.
import { lstatSync, readFileSync, realpathSync, type Stats } from "node:fs";
import { join, sep } from "node:path";
import { decodeText, pythonProblem } from "#lib/decoded-text.ts";
import { Fault } from "#lib/fault.ts";
import type { ReadText } from "./requirements.ts";

/** Package lists and settings are far smaller. */
export const textBytesMax = 1_000_000;
/** What is larger is data in the form of a program; Python itself says what is wrong with it. */
const sourceBytesMax = 20_000_000;

/** Names of an app's settings file; the first existing one applies. */
export const tomlNames = ["slipway.toml", "cerebrium.toml"] as const;

/** The files of an app, by their paths relative to its folder. */
export type AppFiles = {
  readonly readText: ReadText;
  /** True for a regular file inside the folder. */
  readonly has: (path: string) => boolean;
  /** Why Python cannot read a source file that is there; null: it can. */
  readonly pythonProblem: (path: string) => string | null;
};

/** Returns the files of one folder. */
export function appFiles(appDir: string): AppFiles {
  const root = realpathSync(appDir);
  return {
    readText: (path) => {
      const found = findFile(root, path);
      if (found === null) return null;
      checkTextSize(found.stats.size, path);
      return decodeText(readFileSync(found.real), path);
    },
    has: (path) => findFile(root, path) !== null,
    pythonProblem: (path) => {
      const found = findFile(root, path);
      if (found === null || found.stats.size > sourceBytesMax) return null;
      return pythonProblem(readFileSync(found.real), path);
    },
  };
}

/** Null when the path is missing, is not a regular file or leads out of the folder. */
function findFile(root: string, path: string): { readonly real: string; readonly stats: Stats } | null {
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
  throw new Fault("invalid", `${name} is larger than 1 MB, the most that is read of such a file. Make it shorter.`);
}

/** The repository's settings file; null when it has none. */
export function readAppToml(readText: ReadText): { readonly name: string; readonly text: string } | null {
  for (const name of tomlNames) {
    const text = readText(name);
    if (text !== null) return { name, text };
  }
  return null;
}
