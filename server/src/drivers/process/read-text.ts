// Reads small files of the kernel and of the machine that may not be there, or are not ours to read.
import { readFileSync } from "node:fs";

/** The file's text; empty when it cannot be read: it is not there, or is about a process that has ended or is another user's. */
export function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
