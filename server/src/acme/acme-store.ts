// Queries on the certificates that the platform gets by itself, and on its accounts at authorities.
import { sql, type Selectable } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { insertNew, putRows, type Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type CertificateRow = Selectable<Tables["certificates"]>;

/** A row without the certificate and its key. With `ends_at`, the name has a certificate. */
export type ScheduledCertificate = Omit<CertificateRow, "chain" | "key_sealed">;

export type AcmeAccountRow = Selectable<Tables["acme_accounts"]>;

/** A certificate and its key, as a row has them. */
export type StoredCertificate = {
  readonly chain: string;
  readonly keySealed: string;
  readonly beginsAt: Date;
  readonly endsAt: Date;
  readonly nextTryAt: Date;
};

/** A try that has failed. */
type Failure = { readonly reason: string; readonly now: Date; readonly nextTryAt: Date };

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

/** A row, and whether nothing is wrong with it: no try fails, no end, nothing to revoke. */
export type ListedRow = CertificateRow & { readonly is_fine: boolean };

export type CertificatePage = {
  readonly now: Date;
  /** Where the previous page ended; null: there is none. */
  readonly after: Pick<ListedRow, "is_fine" | "name"> | null;
  readonly limit: number;
};

/** A page of the rows: first those with which something is wrong, then by name. No locks. */
export function listCertificates(
  db: Db,
  { now, after, limit }: CertificatePage,
): Promise<ListedRow[]> {
  const isFine = sql<boolean>`(failures = 0 and revocation is null and coalesce(ends_at > ${now}, true))`;
  let rows = db.selectFrom("certificates").selectAll().select(isFine.as("is_fine"));
  if (after !== null)
    rows = rows.where(sql<boolean>`(${isFine}, name) > (${after.is_fine}, ${after.name})`);
  return rows.orderBy(isFine).orderBy("name").limit(limit).execute();
}

/** What is known of all names, without their certificates. No order, no locks. */
export function readAllNames(db: Db): Promise<ScheduledCertificate[]> {
  return db
    .selectFrom("certificates")
    .select([
      "name",
      "begins_at",
      "ends_at",
      "next_try_at",
      "failures",
      "last_error",
      "failing_since",
      "warned_at",
      "revocation",
      "order_url",
      "order_key_sealed",
      "project_id",
      "first_order_at",
    ])
    .execute();
}

/** The rows of these names, in the order of the names. No locks. */
export function certificatesOf(db: Db, names: readonly string[]): Promise<CertificateRow[]> {
  const rows = db.selectFrom("certificates").selectAll();
  return rows
    .where("name", "in", [...names, ""])
    .orderBy("name")
    .execute();
}

/** The row of a name, or undefined. No locks. */
export function certificateOf(db: Db, name: string): Promise<CertificateRow | undefined> {
  return db.selectFrom("certificates").selectAll().where("name", "=", name).executeTakeFirst();
}

/**
 * Stores a new certificate, and clears the order, the failures and the warning of the name. False:
 * nothing is stored, since somebody has asked meanwhile to have the present one revoked, which
 * would be lost.
 */
export async function storeCertificate(
  db: Db,
  name: string,
  { chain, keySealed, beginsAt, endsAt, nextTryAt }: StoredCertificate,
): Promise<boolean> {
  const stored = await db
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
      failing_since: null,
      warned_at: null,
    })
    .where("name", "=", name)
    .where("revocation", "is", null)
    .executeTakeFirst();
  return stored.numUpdatedRows === 1n;
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

/** Notes that the name's first certificate is ordered now, and for which project. */
export async function storeFirstOrder(
  db: Db,
  name: string,
  { projectId, now }: { readonly projectId: ProjectId; readonly now: Date },
): Promise<void> {
  await db
    .updateTable("certificates")
    .set({ project_id: projectId, first_order_at: now })
    .where("name", "=", name)
    .execute();
}

/** Stores why nothing is ordered for the name before a time. */
export async function storeWait(
  db: Db,
  name: string,
  { reason, nextTryAt }: { readonly reason: string; readonly nextTryAt: Date },
): Promise<void> {
  await db
    .updateTable("certificates")
    .set({ last_error: reason, next_try_at: nextTryAt })
    .where("name", "=", name)
    .execute();
}

/** Counts a try that has failed now, and stores why it failed and when the next one is. */
export async function storeFailure(
  db: Db,
  name: string,
  { reason, now, nextTryAt }: Failure,
): Promise<void> {
  await db
    .updateTable("certificates")
    .set((row) => ({
      failures: row("failures", "+", 1),
      last_error: reason,
      failing_since: row.fn.coalesce("failing_since", row.val(now)),
      next_try_at: nextTryAt,
    }))
    .where("name", "=", name)
    .execute();
}

/** Notes that the operator was warned about the name's certificate. */
export async function storeWarned(db: Db, name: string, now: Date): Promise<void> {
  await db.updateTable("certificates").set({ warned_at: now }).where("name", "=", name).execute();
}

/**
 * Has the name's certificate requested from `now` on, and the present one revoked first if there is
 * a reason; false: the name has no row, or no certificate to revoke.
 */
export async function requestNow(
  db: Db,
  name: string,
  { now, revocation }: { readonly now: Date; readonly revocation: string | null },
): Promise<boolean> {
  const rows = db.updateTable("certificates").where("name", "=", name);
  const changed =
    revocation === null
      ? await rows.set({ next_try_at: now }).executeTakeFirst()
      : await rows
          .set({ next_try_at: now, revocation })
          .where("chain", "is not", null)
          .executeTakeFirst();
  return changed.numUpdatedRows === 1n;
}

/** Forgets the certificate that was revoked. */
export async function forgetRevoked(db: Db, name: string): Promise<void> {
  await db
    .updateTable("certificates")
    .set({ chain: null, key_sealed: null, begins_at: null, ends_at: null, revocation: null })
    .where("name", "=", name)
    .execute();
}

/**
 * Removes the rows of names other than `wanted` whose next try is due, and that have no
 * certificate, or one that has ended; not those first ordered after `countedSince`. Returns the
 * names.
 */
export async function removeUnwanted(
  db: Db,
  wanted: readonly string[],
  { now, countedSince }: { readonly now: Date; readonly countedSince: Date },
): Promise<string[]> {
  const rows = await db
    .deleteFrom("certificates")
    .where("name", "not in", [...wanted, ""])
    .where("next_try_at", "<=", now)
    .where((row) => row.or([row("ends_at", "is", null), row("ends_at", "<=", now)]))
    .where((row) =>
      row.or([row("first_order_at", "is", null), row("first_order_at", "<=", countedSince)]),
    )
    .returning("name")
    .execute();
  return rows.map(({ name }) => name);
}
