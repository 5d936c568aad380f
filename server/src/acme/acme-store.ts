// Queries on the certificates that the platform gets by itself, and on its accounts at authorities.
import type { Selectable } from "kysely";
import { insertNew, putRows, type Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type CertificateRow = Selectable<Tables["certificates"]>;

export type AcmeAccountRow = Selectable<Tables["acme_accounts"]>;

/** A certificate and its key, as a row has them. */
export type StoredCertificate = {
  readonly chain: string;
  readonly keySealed: string;
  readonly beginsAt: Date;
  readonly endsAt: Date;
  readonly nextTryAt: Date;
};

/** The account at the authority, or undefined. No locks. */
export function accountAt(db: Db, directoryUrl: string): Promise<AcmeAccountRow | undefined> {
  return db
    .selectFrom("acme_accounts")
    .selectAll()
    .where("directory_url", "=", directoryUrl)
    .executeTakeFirst();
}

/** Stores the account; an earlier one at the same authority is replaced. */
export async function putAccount(db: Db, row: AcmeAccountRow): Promise<void> {
  await putRows(db, "acme_accounts", ["directory_url"], row);
}

/** Adds the names that have no row; their certificates are requested from `now` on. */
export async function addNames(db: Db, names: readonly string[], now: Date): Promise<void> {
  for (const name of names) await insertNew(db, "certificates", { name, next_try_at: now });
}

/** All rows by name, at most `limit`. No locks. */
export function listCertificates(db: Db, limit: number): Promise<CertificateRow[]> {
  return db.selectFrom("certificates").selectAll().orderBy("name").limit(limit).execute();
}

/** Stores a new certificate, with which the order and the failures of the name are over. */
export async function storeCertificate(
  db: Db,
  name: string,
  { chain, keySealed, beginsAt, endsAt, nextTryAt }: StoredCertificate,
): Promise<void> {
  await db
    .updateTable("certificates")
    .set({
      chain,
      key_sealed: keySealed,
      begins_at: beginsAt,
      ends_at: endsAt,
      next_try_at: nextTryAt,
      order_url: null,
      order_key_sealed: null,
      failures: 0,
      last_error: null,
    })
    .where("name", "=", name)
    .execute();
}

/** Stores the order under way; null: there is none any more. */
export async function storeOrder(
  db: Db,
  name: string,
  order: { readonly url: string; readonly keySealed: string } | null,
): Promise<void> {
  await db
    .updateTable("certificates")
    .set({ order_url: order?.url ?? null, order_key_sealed: order?.keySealed ?? null })
    .where("name", "=", name)
    .execute();
}

/** Counts a failed try, and stores why it failed and when the next one is. */
export async function storeFailure(
  db: Db,
  name: string,
  { reason, nextTryAt }: { readonly reason: string; readonly nextTryAt: Date },
): Promise<void> {
  await db
    .updateTable("certificates")
    .set((row) => ({
      failures: row("failures", "+", 1),
      last_error: reason,
      next_try_at: nextTryAt,
    }))
    .where("name", "=", name)
    .execute();
}
