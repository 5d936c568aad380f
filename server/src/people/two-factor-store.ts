// Rows of second factors. A person has one at most.
import { randomUUID } from "node:crypto";
import type { Selectable, Updateable } from "kysely";
import type { Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type TwoFactorRow = Selectable<Tables["person_two_factors"]>;

/**
 * A person's second factor, or undefined. `last_code_at`: when the app began to show the last code
 * that was taken; in rows of earlier versions when it was taken. Locks the row, so that codes of
 * one person are taken one after the other.
 */
export function lockTwoFactor(tx: Tx, personId: string): Promise<TwoFactorRow | undefined> {
  const rows = tx.selectFrom("person_two_factors").selectAll().where("person_id", "=", personId);
  return rows.forUpdate().executeTakeFirst();
}

/**
 * Puts one that is not confirmed in place of another such; false when the person has a confirmed
 * one.
 */
export async function putTwoFactor(
  tx: Tx,
  row: Pick<TwoFactorRow, "person_id" | "secret" | "backup_codes">,
): Promise<boolean> {
  const { secret, backup_codes } = row;
  const put = await tx
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
  return put !== undefined;
}

/** Takes one away that is not confirmed: whoever began it need not know the password any more. */
export async function deleteUnconfirmed(tx: Tx, personId: string): Promise<void> {
  const rows = tx.deleteFrom("person_two_factors").where("person_id", "=", personId);
  await rows.where("verified", "=", false).execute();
}

/** Changes what is kept of it. */
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

/** Confirms a person's second factor, or takes it away with its backup codes. */
export async function switchTwoFactor(tx: Tx, personId: string, isOn: boolean): Promise<void> {
  if (isOn) await updateTwoFactor(tx, personId, { verified: true });
  else await tx.deleteFrom("person_two_factors").where("person_id", "=", personId).execute();
  await tx
    .updateTable("people")
    .set({ two_factor_enabled: isOn })
    .where("id", "=", personId)
    .execute();
}
