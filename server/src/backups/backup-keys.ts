// The keys of backups, in the form of age: the public key is for the platform, which can only write
// backups with it; the private key is in a file that the operator keeps elsewhere.
import { existsSync, readFileSync } from "node:fs";
import { Encrypter, generateIdentity, identityToRecipient } from "age-encryption";
import { errorMessage } from "#lib/error-message.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { writeFileSafely } from "#lib/write-file.ts";

/** Makes a key and writes it into a new file, in the form of age-keygen. */
export async function makeBackupKey(
  file: string,
): Promise<{ readonly file: string; readonly publicKey: string }> {
  if (existsSync(file)) throw new CannotStart(`${file} exists already. Give another name.`);
  const key = await generateIdentity();
  const publicKey = await identityToRecipient(key);
  try {
    writeFileSafely(file, `# public key: ${publicKey}\n${key}\n`);
  } catch (error) {
    throw new CannotStart(`The key cannot be written: ${errorMessage(error)}.`, { cause: error });
  }
  return { file, publicKey };
}

/** Returns the public keys. Throws `CannotStart` when there is none, or one is not valid. */
export function requirePublicKeys(publicKeys: readonly string[]): readonly string[] {
  if (publicKeys.length === 0) {
    throw new CannotStart(
      "A backup needs a public key, whose private key opens it. Make both: slipway backup --new-key backup.key. Then give the public one with --public-key, or in SLIPWAY_BACKUP_PUBLIC_KEYS.",
    );
  }
  const refused = publicKeys.find((key) => !isPublicKey(key));
  if (refused === undefined) return publicKeys;
  // A private key that was taken for a public one is not shown.
  const shown = refused.startsWith("age1") ? `"${refused}"` : "What was given";
  throw new CannotStart(
    `${shown} is no public key for backups: one begins with age1, and has no error in it. Make a key: slipway backup --new-key backup.key`,
  );
}

function isPublicKey(key: string): boolean {
  try {
    new Encrypter().addRecipient(key);
    return true;
  } catch {
    return false;
  }
}

const privateKeyForm = /^AGE-SECRET-KEY-/;

/** The private keys in a file. Throws `CannotStart` when it has none. */
export function readPrivateKeys(file: string): readonly string[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new CannotStart(`The key file cannot be read: ${errorMessage(error)}.`, { cause: error });
  }
  const lines = text.split("\n").map((line) => line.trim());
  const keys = lines.filter((line) => privateKeyForm.test(line));
  if (keys.length > 0) return keys;
  throw new CannotStart(
    `${file} holds no private key for backups: a line that begins with AGE-SECRET-KEY- (its content is not shown).`,
  );
}
