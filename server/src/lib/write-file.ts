// Writes a file so that a crash leaves either the complete old file or the complete new one.
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Replaces the file at `path`, readable by its owner only. The data is on disk on return. */
export function writeFileSafely(path: string, text: string): void {
  const temporary = `${path}.new`;
  // A crash may have left this file with other permissions.
  rmSync(temporary, { force: true });
  const file = openSync(temporary, "wx", 0o600);
  try {
    // `writeFileSync` writes all of the text, whereas a single `writeSync` may write only a part
    // when the disk is nearly full.
    writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSafely(temporary, path);
}

/** Renames within one folder; the new name is on disk on return. */
export function renameSafely(from: string, to: string): void {
  renameSync(from, to);
  const folder = openSync(dirname(to), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
