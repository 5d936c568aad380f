// The secret that signs sessions and encrypts second factors: random, made by the first start, kept
// in the database, sealed with the platform's secret key. So all platforms on one database share
// it, and a change of the secret key signs nobody out.
import { randomBytes } from "node:crypto";
import type { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { insertSecret, secretSealed } from "./people-store.ts";

/** The context with which the secret is sealed. */
export const authSecretContext = "person_secret";
const bytes = 32;

/** The secret, made when there is none. */
export async function loadAuthSecret(db: Db, sealer: Sealer): Promise<Secret> {
  const fresh = sealer.seal(randomBytes(bytes).toString("base64url"), authSecretContext);
  // Of several platforms that start together, one is first, and all read what it wrote.
  await insertSecret(db, fresh);
  return sealer.open(await secretSealed(db), authSecretContext);
}
