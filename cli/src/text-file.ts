// Reads text files of an app's folder as the platform reads them, whatever editor has saved them.
import { readFileSync } from "node:fs";
import { decodeText } from "@slipway/server/src/lib/decoded-text.ts";
import { Fault } from "@slipway/server/src/lib/fault.ts";
import { Refused } from "./refused.ts";

/**
 * The text of a file. Throws `Refused` that says what is wrong in it; `name` is what it is called
 * there.
 */
export function readTextFile(path: string, name: string): string {
  try {
    return decodeText(readFileSync(path), name);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw new Refused(error.message, { exitCode: 2, cause: error });
  }
}
