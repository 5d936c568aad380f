// Reads small files of the kernel and the machine that may be missing or unreadable.
import { readFileSync } from "node:fs";

/**
 * The file's text; empty when the file cannot be read, for example because it is missing, or
 * because the process that it describes has exited or belongs to another user.
 */
export function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
