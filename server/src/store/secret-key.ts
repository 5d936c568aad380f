// Opens the key that encrypts secrets at rest. It comes from the settings, or is created once and
// kept in the data folder. If the database holds data sealed by another key, the start fails: the
// platform does not wait until somebody reads a secret.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { errorMessage } from "#lib/error-message.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { errorCode } from "#lib/error-code.ts";
import { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import { writeFileSafely } from "#lib/write-file.ts";
import type { Db } from "./database.ts";
import { sealingKeyIds, type SealedColumn } from "./sealed-store.ts";

/**
 * The sealer for this database. Throws `CannotStart` when the database needs a key that is missing.
 */
export async function openSealer(
  db: Db,
  options: {
    readonly secretKeys: readonly Secret[] | null;
    readonly secretKeyFile: string;
    readonly sealedColumns: readonly SealedColumn[];
  },
): Promise<Sealer> {
  const needed = await sealingKeyIds(db, options.sealedColumns);
  const keys = knownKeys(options);
  if (keys === null && needed.length > 0) {
    throw new CannotStart(
      `The database contains secrets, but there is no key for them: SLIPWAY_SECRET_KEY is not set and ${options.secretKeyFile} is missing. Put the file back or set the variable.`,
    );
  }
  const sealer = new Sealer(keys ?? [makeKeyFile(options.secretKeyFile)]);
  const missing = needed.filter((id) => !sealer.keyIds().includes(id));
  if (missing.length === 0) return sealer;
  const source = options.secretKeys === null ? options.secretKeyFile : "SLIPWAY_SECRET_KEY";
  throw new CannotStart(
    `The database contains secrets of another secret key (id ${missing.join(", ")}) than ${source} has (id ${sealer.keyIds().join(", ")}). Add that key to SLIPWAY_SECRET_KEY, after the new one and a comma.`,
  );
}

/** The keys that the platform of these settings uses; null: it has not made one yet. */
export function keptSecretKeys({
  secretKeys,
  paths,
}: {
  readonly secretKeys: readonly Secret[] | null;
  readonly paths: { readonly secretKeyFile: string };
}): string[] | null {
  return knownKeys({ secretKeys, secretKeyFile: paths.secretKeyFile });
}

function knownKeys(options: {
  readonly secretKeys: readonly Secret[] | null;
  readonly secretKeyFile: string;
}): string[] | null {
  return options.secretKeys?.map((key) => key.reveal()) ?? readKeyFile(options.secretKeyFile);
}

function readKeyFile(path: string): string[] | null {
  let text: string;
  try {
    text = readFileSync(path, "utf8").trim();
  } catch (error) {
    if (errorCode(error) === "ENOENT") return null;
    const why = errorMessage(error);
    throw new CannotStart(`The secret key cannot be read from ${path}: ${why}.`, { cause: error });
  }
  // The first key seals; the others only open what was sealed before a rotation.
  const keys = text.split(",").map((key) => key.trim());
  if (keys.every((key) => /^[0-9a-f]{64}$/i.test(key))) return keys;
  throw new CannotStart(
    `${path} must contain a secret key of 64 hexadecimal digits, or several with commas between them, but contains something else (not shown here). Restore the file from a backup, or set SLIPWAY_SECRET_KEY to the key.`,
  );
}

function makeKeyFile(path: string): string {
  const key = randomBytes(32).toString("hex");
  writeFileSafely(path, `${key}\n`);
  return key;
}
