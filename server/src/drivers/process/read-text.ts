// Reads small files of the kernel and the machine that may be missing or unreadable.
import { readFileSync } from "node:fs";

/**
 * The file's text; empty when it cannot be read, for example because it is missing, or because its
 * process has exited or belongs to another user.
 */
export function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
