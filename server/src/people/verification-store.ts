// Rows of what is asked for and not done yet: links that set a password, second steps of a sign-in.
// Of the secret that whoever was given it shows, only a hash is stored.
import { createHash, randomUUID } from "node:crypto";
import type { Db, Tx } from "#store/database.ts";

/** Adds one. `value`: whose it is. */
export async function insertVerification(
  tx: Tx,
  given: { readonly secret: string; readonly value: string; readonly expiresAt: Date },
): Promise<void> {
  const row = { id: randomUUID(), identifier: identifierOf(given.secret), value: given.value };
  await tx
    .insertInto("person_verifications")
    .values({ ...row, expires_at: given.expiresAt })
    .execute();
}

/** The value, or undefined when there is none or it has expired. No locks. */
export async function verificationOf(
  db: Db,
  secret: string,
  at: Date,
): Promise<string | undefined> {
  const row = await db
    .selectFrom("person_verifications")
    .select("value")
    .where("identifier", "=", identifierOf(secret))
    .where("expires_at", ">", at)
    .executeTakeFirst();
  return row?.value;
}

/** Takes it away; of several that do so at once one is told true. */
export async function takeVerification(tx: Tx, secret: string): Promise<boolean> {
  const rows = tx.deleteFrom("person_verifications").where("identifier", "=", identifierOf(secret));
  return (await rows.returning("id").executeTakeFirst()) !== undefined;
}

/** Removes all of a person. */
export async function deleteVerificationsOf(tx: Tx, personId: string): Promise<void> {
  await tx.deleteFrom("person_verifications").where("value", "=", personId).execute();
}

function identifierOf(secret: string): string {
  return createHash("sha256").update(secret).digest("base64url");
}
