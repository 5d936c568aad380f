// Writing a file so that after a crash there is either the old one or the new one, complete.
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";

/** Replaces the file at `path`, readable by its owner only. On return it is on the disk. */
export function writeFileSafely(path: string, text: string): void {
  const temporary = `${path}.new`;
  // A left-over of a crash may have other rights.
  rmSync(temporary, { force: true });
  const file = openSync(temporary, "wx", 0o600);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSafely(temporary, path);
}

/** Renames within one folder; on return the new name is on the disk. */
export function renameSafely(from: string, to: string): void {
  renameSync(from, to);
  const folder = openSync(dirname(to), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
