// Queries on the domains of apps: claims of names, and whether they are proven.
import { sql, type Selectable, type Updateable } from "kysely";
import type { AppId, AppKey, ProjectId } from "#lib/ids.ts";
import { countRows, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

/** A claim, with the name of its app. */
export type DomainRow = Selectable<Tables["app_domains"]> & { readonly app_name: string };

/** Identifies a claim. */
export type DomainKey = { readonly appId: AppId; readonly name: string };

/** A proven name, and the app that answers on it. */
export type ProvenName = {
  readonly name: string;
  readonly projectId: ProjectId;
  readonly appName: string;
};

/** The claims of all apps that are not being deleted. */
function domainRows(db: Db) {
  return db
    .selectFrom("app_domains")
    .innerJoin("apps", "apps.id", "app_domains.app_id")
    .selectAll("app_domains")
    .select("apps.name as app_name")
    .where("apps.deleting_at", "is", null);
}

/** The claims of an app, by name. No locks. */
export async function readDomains(db: Db, appId: AppId): Promise<DomainRow[]> {
  return await domainRows(db).where("app_id", "=", appId).orderBy("app_domains.name").execute();
}

/** One claim; undefined: the app has none of this name. No locks. */
export async function readDomain(
  db: Db,
  { appId, name }: DomainKey,
): Promise<DomainRow | undefined> {
  return await domainRows(db)
    .where("app_id", "=", appId)
    .where("app_domains.name", "=", name)
    .executeTakeFirst();
}

/** All claims of a name, by app. Locks them in that order. */
export async function lockClaims(tx: Tx, name: string): Promise<DomainRow[]> {
  return await domainRows(tx)
    .where("app_domains.name", "=", name)
    .orderBy("app_id")
    .forUpdate("app_domains")
    .execute();
}

/** The number of a project's claims. The caller holds the lock on the project's row. */
export async function countDomains(tx: Tx, projectId: ProjectId): Promise<number> {
  return await countRows(tx.selectFrom("app_domains").where("project_id", "=", projectId));
}

/** Adds a claim, which is to be checked at once. */
export async function insertDomain(
  tx: Tx,
  { projectId, appId, name, token }: AppKey & DomainKey & { readonly token: string },
): Promise<void> {
  const check_at = sql<Date>`clock_timestamp()`;
  const row = { project_id: projectId, app_id: appId, name, token, check_at };
  await tx.insertInto("app_domains").values(row).execute();
}

/** Writes what a check has changed. The caller holds the lock on the claim. */
export async function updateDomain(
  tx: Tx,
  { appId, name }: DomainKey,
  change: Updateable<Tables["app_domains"]>,
): Promise<void> {
  await tx
    .updateTable("app_domains")
    .set(change)
    .where("app_id", "=", appId)
    .where("name", "=", name)
    .execute();
}

/** Removes a claim; returns whether the name was proven, undefined when there is no such claim. */
export async function deleteDomain(
  tx: Tx,
  { appId, name }: DomainKey,
): Promise<{ readonly wasProven: boolean } | undefined> {
  const row = await tx
    .deleteFrom("app_domains")
    .where("app_id", "=", appId)
    .where("name", "=", name)
    .returning("state")
    .executeTakeFirst();
  return row === undefined ? undefined : { wasProven: row.state === "Validated" };
}

/** At most `limit` claims that are due to be checked, the longest due first. No locks. */
export async function readDueDomains(db: Db, now: Date, limit: number): Promise<DomainRow[]> {
  return await domainRows(db)
    .where("check_at", "<=", now)
    .orderBy("check_at")
    .limit(limit)
    .execute();
}

/**
 * All proven names, the oldest first, so that a limit on how many get certificates never takes one
 * away from a name that has it. No locks.
 */
export async function readProvenNames(db: Db): Promise<ProvenName[]> {
  const rows = await domainRows(db)
    .where("state", "=", "Validated")
    .orderBy("validated_at")
    .orderBy("name")
    .execute();
  return rows.map((row) => ({
    name: row.name,
    projectId: row.project_id,
    appName: row.app_name,
  }));
}
