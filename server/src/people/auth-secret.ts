// The secret that signs sessions and encrypts second factors. The first start creates it at random,
// and stores it in the database, sealed with the platform's secret key. So all platforms on one
// database share it, and a change of the secret key signs nobody out.
import { randomBytes } from "node:crypto";
import type { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { insertSecret, secretSealed } from "./people-store.ts";

/** The context with which the secret is sealed. */
export const authSecretContext = "person_secret";
const bytes = 32;

/** Loads the secret, and creates it first if the database has none. */
export async function loadAuthSecret(db: Db, sealer: Sealer): Promise<Secret> {
  const newSecret = sealer.seal(randomBytes(bytes).toString("base64url"), authSecretContext);
  // When several platforms start together, the first one's secret stays, and all of them read it.
  await insertSecret(db, newSecret);
  return sealer.open(await secretSealed(db), authSecretContext);
}
