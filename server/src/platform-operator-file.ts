// Reads the files that settings name and an operator writes: what cannot be used stops the start, with the setting's name.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { OperatorFileRefused } from "#billing/operator-file.ts";
import { CannotStart } from "#lib/cannot-start.ts";

/** What `read` makes of the file's text. Throws `CannotStart` when the file cannot be read or `read` refuses it. */
export function readOperatorFile<Content>(setting: string, file: string, read: (text: string) => Content): Content {
  try {
    return read(readFileSync(resolve(file), "utf8"));
  } catch (error) {
    const isOurs = error instanceof OperatorFileRefused || (error instanceof Error && "code" in error);
    if (!isOurs) throw error;
    throw new CannotStart(`${setting} (${file}) cannot be used: ${error.message}`, { cause: error });
  }
}
