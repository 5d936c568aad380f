// Queries on sealed credentials: git credentials, one per host of a project, and the credentials of
// an app for its image registry.
import { sql, type Selectable } from "kysely";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { putRows, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type CredentialRow = Selectable<Tables["git_credentials"]>;

/**
 * Git credentials of a project, ordered by host, at most `limit`; with `host`, only the credential
 * of that host. No locks.
 */
export async function readCredentials(
  db: Db,
  filter: { readonly projectId: ProjectId; readonly host?: string; readonly limit: number },
): Promise<CredentialRow[]> {
  let query = db
    .selectFrom("git_credentials")
    .selectAll()
    .where("project_id", "=", filter.projectId);
  if (filter.host !== undefined) query = query.where("host", "=", filter.host);
  return await query.orderBy("host").limit(filter.limit).execute();
}

/** Sets the credential of a host. */
export async function putCredential(
  tx: Tx,
  row: Pick<CredentialRow, "project_id" | "host" | "kind" | "username" | "secret_sealed">,
): Promise<void> {
  const put = { ...row, updated_at: sql<Date>`clock_timestamp()` };
  await putRows(tx, "git_credentials", ["project_id", "host"], put);
}

/** Removes the credential of a host; false when there was none. */
export async function dropCredential(tx: Tx, projectId: ProjectId, host: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom("git_credentials")
    .where("project_id", "=", projectId)
    .where("host", "=", host)
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

/** The app's sealed credentials for pulling its base image; null: it has none. */
export async function readDockerAuth(db: Db, appId: AppId): Promise<string | null> {
  const row = await db
    .selectFrom("apps")
    .select("docker_auth_sealed")
    .where("id", "=", appId)
    .executeTakeFirst();
  return row?.docker_auth_sealed ?? null;
}
