// Reads small text files of an app's folder and never follows a path out of it.
import { lstatSync, readFileSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";
import type { ReadText } from "./requirements.ts";

/** Package lists and settings are far smaller. */
export const textBytesMax = 1_000_000;

/** Names of an app's settings file; the first existing one applies. */
export const tomlNames = ["slipway.toml", "cerebrium.toml"] as const;

/**
 * A reader for one folder. Returns null when the path is missing, is not a regular file, is larger than 1 MB, is not
 * UTF-8 or lies outside.
 */
export function textReader(appDir: string): ReadText {
  const root = realpathSync(appDir);
  return (path) => {
    try {
      const real = realpathSync(join(root, path));
      const stats = lstatSync(real);
      if (!real.startsWith(root + sep) || !stats.isFile() || stats.size > textBytesMax) return null;
      return textOf(readFileSync(real));
    } catch {
      return null;
    }
  };
}

/** The text of a file; null when it is larger than 1 MB or not UTF-8. */
export function textOf(bytes: Buffer): string | null {
  try {
    return bytes.length > textBytesMax ? null : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** The repository's settings file; null when it has none. */
export function readAppToml(readText: ReadText): { readonly name: string; readonly text: string } | null {
  for (const name of tomlNames) {
    const text = readText(name);
    if (text !== null) return { name, text };
  }
  return null;
}
