// Reads and writes small JSON files in the data folder that describe replicas.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { isDiskFull } from "#lib/disk-full.ts";

/** Replaces a file atomically, so that a reader never sees half of it. */
export function writeWhole(path: string, value: unknown): void {
  writeFileSync(`${path}.new`, JSON.stringify(value), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Replaces a file as `writeWhole` does; returns false, and leaves it, when the disk is full. */
export function writeIfFits(path: string, value: unknown): boolean {
  try {
    writeWhole(path, value);
    return true;
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    return false;
  }
}

/** Returns the object in the file; null when the file is missing or incomplete. */
export function readJson(path: string): Record<string, unknown> | null {
  if (!existsSync(path)) return null;
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
  } catch {
    return null;
  }
}
