// Replaces a file at once, so that a crash or a full disk leaves either the old one or the new one.
import { chmodSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { errorMessage } from "./error-message.ts";
import { Refused } from "./refused.ts";

/**
 * Writes the file with exactly these permissions; a folder that is missing becomes its user's
 * alone. Throws `Refused` when it cannot be written.
 */
export function replaceFile(file: string, text: string, mode: number): void {
  const temporary = `${file}.${process.pid}.new`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    try {
      writeFileSync(temporary, text, { mode, flag: "wx" });
      // The umask of the process may remove even more permissions.
      chmodSync(temporary, mode);
      renameSync(temporary, file);
    } finally {
      rmSync(temporary, { force: true });
    }
  } catch (error) {
    const why = errorMessage(error);
    throw new Refused(`${file} cannot be written: ${why}.`, { cause: error });
  }
}
