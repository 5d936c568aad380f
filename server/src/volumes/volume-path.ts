// Reads a path within a volume as callers give it. Pure. A refused path never reaches the file
// system.
import { refused } from "#apps/refusal.ts";

/**
 * A path within a volume. `names` is empty for the volume itself. `isFolder`: the path was written
 * as that of a folder, such as with a slash at its end.
 */
export type VolumePath = { readonly names: readonly string[]; readonly isFolder: boolean };

/** The limit of file systems for one name. */
const nameBytesMax = 255;
/** The limit of the system for a path. */
const pathBytesMax = 4096;
/** The maximum number of names: each costs a system call or two whenever the path is used. */
const namesMax = 100;
const allowed = `a path within the volume: at most ${pathBytesMax} bytes, ${nameBytesMax} for each name, ${namesMax} names, and none of them ".."`;

/**
 * Reads a path; a refusal names it by `field`. Slashes at the start, repeated slashes and names `.`
 * mean nothing. Nothing is decoded: `%2e` is three characters of a name. Throws `Fault("invalid")`.
 */
export function readVolumePath(field: string, text: string): VolumePath {
  const names = text.split("/").filter((name) => name !== "" && name !== ".");
  const isAllowed =
    text.isWellFormed() &&
    !text.includes("\0") &&
    Buffer.byteLength(text) <= pathBytesMax &&
    names.length <= namesMax &&
    names.every((name) => name !== ".." && Buffer.byteLength(name) <= nameBytesMax);
  if (!isAllowed) throw refused({ field, given: text, allowed });
  // A path is that of a folder if it is empty, ends with a slash, or ends with the name `.`.
  return { names, isFolder: /(?:^|\/)\.?$/.test(text) };
}

/** Reads the path of a file or folder within the volume. Throws like `readVolumePath`. */
export function readInnerPath(field: string, text: string): VolumePath {
  const path = readVolumePath(field, text);
  if (path.names.length === 0)
    throw refused({ field, given: text, allowed: "the path of something within the volume" });
  return path;
}

/** Reads the path of a file. Throws like `readVolumePath`. */
export function readFilePath(field: string, text: string): VolumePath {
  const path = readInnerPath(field, text);
  if (path.isFolder)
    throw refused({ field, given: text, allowed: "the path of a file, without a / at its end" });
  return path;
}

/** The text of a path, as it is shown and stored. */
export function pathText({ names, isFolder }: VolumePath): string {
  return names.join("/") + (isFolder && names.length > 0 ? "/" : "");
}
