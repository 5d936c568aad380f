// The file in the data folder that the platform wrote at its first start: its addresses and first
// tokens.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fieldsOf, textOf } from "./answer.ts";
import type { Installation } from "./installation.ts";

type Fields = ReturnType<typeof fieldsOf>;

/** The path of the bootstrap file. */
export function bootstrapFile({ dataDir }: Pick<Installation, "dataDir">): string {
  return join(dataDir, "bootstrap.json");
}

/** Reads the fields of the bootstrap file; null: there is none. Throws when it cannot be read. */
export function readBootstrapFields(installation: Pick<Installation, "dataDir">): Fields | null {
  const file = bootstrapFile(installation);
  return existsSync(file) ? fieldsOf(JSON.parse(readFileSync(file, "utf8"))) : null;
}

/** Where the platform listens on this machine. */
export function localUrlOf(fields: Fields): string {
  // A platform before this field wrote none.
  return textOf(fields, "localUrl" in fields ? "localUrl" : "baseUrl");
}
