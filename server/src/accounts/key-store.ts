// Rows of the keys that sign tokens.
import type { Insertable, Selectable } from "kysely";
import { changeOne, readRows, type Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type SigningKeyRow = Selectable<Tables["signing_keys"]>;

/** A key, and the number of valid tokens that it signed; those of people have no row to count. */
export type CountedKey = Omit<SigningKeyRow, "private_key_sealed" | "public_jwk"> & {
  readonly validTokens: number;
};

/** All signing keys that were not withdrawn, newest first. */
export function listSigningKeys(db: Db): Promise<SigningKeyRow[]> {
  return db
    .selectFrom("signing_keys")
    .selectAll()
    .where("withdrawn_at", "is", null)
    .orderBy("created_at", "desc")
    .orderBy("id")
    .execute();
}

/** The sealed public halves of withdrawn keys, as far as they were stored. */
export async function listWithdrawnKeys(db: Db): Promise<{ id: string; sealed: string }[]> {
  const rows = await db
    .selectFrom("signing_keys")
    .select(["id", "withdrawn_public_sealed as sealed"])
    .where("withdrawn_at", "is not", null)
    .execute();
  return rows.flatMap(({ id, sealed }) => (sealed === null ? [] : [{ id, sealed }]));
}

/** All signing keys, including withdrawn ones, newest first. */
export async function countedKeys(db: Db, now: Date): Promise<CountedKey[]> {
  return await readRows<CountedKey>(db)`
    select key.id, key.created_at, key.retired_at, key.withdrawn_at,
           (select count(*)::integer from tokens
             where signing_key_id = key.id and revoked_at is null and (expires_at is null or expires_at > ${now})
           ) as "validTokens"
      from signing_keys key
     order by key.created_at desc, key.id
  `;
}

/** Adds a signing key. */
export async function insertSigningKey(
  tx: Db,
  row: Insertable<Tables["signing_keys"]>,
): Promise<void> {
  await tx.insertInto("signing_keys").values(row).execute();
}

/** Retires every key but `keyId`; returns the ids of the keys that were not retired before. */
export async function retireOtherKeys(tx: Db, keyId: string, at: Date): Promise<string[]> {
  const rows = await tx
    .updateTable("signing_keys")
    .set({ retired_at: at })
    .where("id", "<>", keyId)
    .where("retired_at", "is", null)
    .returning("id")
    .execute();
  return rows.map((row) => row.id);
}

/**
 * Marks a retired key as withdrawn, erases its private half, and keeps its sealed public half.
 * Returns false when no retired key has this id, or the key was withdrawn before.
 */
export async function markWithdrawn(
  tx: Db,
  {
    keyId,
    at,
    publicSealed,
  }: { readonly keyId: string; readonly at: Date; readonly publicSealed: string | null },
): Promise<boolean> {
  return await changeOne(tx)`
    update signing_keys set withdrawn_at = ${at}, private_key_sealed = '', withdrawn_public_sealed = ${publicSealed}
     where id = ${keyId} and retired_at is not null and withdrawn_at is null`;
}
