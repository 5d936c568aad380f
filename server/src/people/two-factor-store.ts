// Queries of second factors. A person has at most one.
import { randomUUID } from "node:crypto";
import type { Selectable, Updateable } from "kysely";
import type { Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type TwoFactorRow = Selectable<Tables["person_two_factors"]>;

/**
 * A person's second factor, or undefined. `last_code_at` is the time at which the app began to show
 * the last accepted code; in rows of earlier versions, the time at which the code was accepted.
 * Locks the row, so that the codes of one person are checked one after the other.
 */
export function lockTwoFactor(tx: Tx, personId: string): Promise<TwoFactorRow | undefined> {
  const rows = tx.selectFrom("person_two_factors").selectAll().where("person_id", "=", personId);
  return rows.forUpdate().executeTakeFirst();
}

/**
 * Adds a second factor that is not confirmed yet, in place of an earlier one that was not
 * confirmed. Returns false when the person has a confirmed second factor.
 */
export async function putTwoFactor(
  tx: Tx,
  row: Pick<TwoFactorRow, "person_id" | "secret" | "backup_codes">,
): Promise<boolean> {
  const { secret, backup_codes } = row;
  const stored = await tx
    .insertInto("person_two_factors")
    .values({ ...row, id: randomUUID() })
    .onConflict((conflict) =>
      conflict
        .column("person_id")
        .doUpdateSet({ secret, backup_codes, last_code_at: null })
        .where("person_two_factors.verified", "=", false),
    )
    .returning("id")
    .executeTakeFirst();
  return stored !== undefined;
}

/**
 * Deletes a second factor that is not confirmed. Called when a password is changed or removed,
 * since somebody who knew only the old password may have begun to set it up.
 */
export async function deleteUnconfirmed(tx: Tx, personId: string): Promise<void> {
  const rows = tx.deleteFrom("person_two_factors").where("person_id", "=", personId);
  await rows.where("verified", "=", false).execute();
}

/** Changes a person's second factor. */
export async function updateTwoFactor(
  tx: Tx,
  personId: string,
  changes: Updateable<Tables["person_two_factors"]>,
): Promise<void> {
  await tx
    .updateTable("person_two_factors")
    .set(changes)
    .where("person_id", "=", personId)
    .execute();
}

/** Confirms a person's second factor, or deletes it with its backup codes. */
export async function switchTwoFactor(tx: Tx, personId: string, isOn: boolean): Promise<void> {
  if (isOn) await updateTwoFactor(tx, personId, { verified: true });
  else await tx.deleteFrom("person_two_factors").where("person_id", "=", personId).execute();
  await tx
    .updateTable("people")
    .set({ two_factor_enabled: isOn })
    .where("id", "=", personId)
    .execute();
}
