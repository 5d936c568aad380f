// The secret that signs sessions and encrypts second factors: random, made by the first start, kept in the database, sealed with
// the platform's secret key. So all platforms on one database share it, and a change of the secret key signs nobody out.
import { randomBytes } from "node:crypto";
import type { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { insertSecret, secretSealed, updateSecret } from "./people-store.ts";

const context = "person_secret";
const bytes = 32;

/** The secret, made when there is none; sealed anew when an older secret key had sealed it. */
export async function loadAuthSecret(db: Db, sealer: Sealer): Promise<Secret> {
  const fresh = sealer.seal(randomBytes(bytes).toString("base64url"), context);
  // Of several platforms that start together, one is first, and all read what it wrote.
  await insertSecret(db, fresh);
  const sealed = await secretSealed(db);
  const secret = sealer.open(sealed, context);
  if (sealer.isOld(sealed)) await updateSecret(db, sealer.seal(secret.reveal(), context));
  return secret;
}
