// Queries of steps that a person has yet to complete: setting a password by a link, and the second
// step of a sign-in. The person proves their right with a secret, of which only a hash is stored.
import { createHash, randomUUID } from "node:crypto";
import type { Db, Tx } from "#store/database.ts";

/** Adds a step. `value` is the id of the person who has to complete it. */
export async function insertVerification(
  tx: Tx,
  step: { readonly secret: string; readonly value: string; readonly expiresAt: Date },
): Promise<void> {
  const row = { id: randomUUID(), identifier: identifierOf(step.secret), value: step.value };
  await tx
    .insertInto("person_verifications")
    .values({ ...row, expires_at: step.expiresAt })
    .execute();
}

/**
 * The value of the step with this secret; undefined: there is none, or it has expired. No locks.
 */
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

/** Deletes the step with this secret. Of several concurrent calls, only one returns true. */
export async function takeVerification(tx: Tx, secret: string): Promise<boolean> {
  const rows = tx.deleteFrom("person_verifications").where("identifier", "=", identifierOf(secret));
  return (await rows.returning("id").executeTakeFirst()) !== undefined;
}

/** Deletes all steps of a person. */
export async function deleteVerificationsOf(tx: Tx, personId: string): Promise<void> {
  await tx.deleteFrom("person_verifications").where("value", "=", personId).execute();
}

function identifierOf(secret: string): string {
  return createHash("sha256").update(secret).digest("base64url");
}
