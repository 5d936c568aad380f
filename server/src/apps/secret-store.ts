// Queries on secrets, which are sealed. `appId` null: secrets of the whole project.
import { sql } from "kysely";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { putRows, type Db, type Tx } from "#store/database.ts";

/** The owner of secrets. */
export type SecretScope = { readonly projectId: ProjectId; readonly appId: AppId | null };
export type SealedSecret = { readonly name: string; readonly value_sealed: string };

/** All secrets of a scope, by name. No locks. */
export async function readSealed(db: Db, scope: SecretScope): Promise<SealedSecret[]> {
  return await db
    .selectFrom("secrets")
    .select(["name", "value_sealed"])
    .where("project_id", "=", scope.projectId)
    .where("app_id", "is not distinct from", scope.appId)
    .orderBy("name")
    .execute();
}

/** The secrets of an app and of its project, the project's first. No locks. */
export async function readSealedForApp(
  db: Db,
  appId: AppId,
): Promise<(SealedSecret & { readonly project_id: ProjectId; readonly app_id: AppId | null })[]> {
  return await db
    .selectFrom("secrets")
    .innerJoin("apps", "apps.project_id", "secrets.project_id")
    .select(["secrets.name", "secrets.value_sealed", "secrets.project_id", "secrets.app_id"])
    .where("apps.id", "=", appId)
    .where((where) =>
      where.or([where("secrets.app_id", "is", null), where("secrets.app_id", "=", appId)]),
    )
    .orderBy("secrets.app_id", (order) => order.asc().nullsFirst())
    .orderBy("secrets.name")
    .execute();
}

/**
 * Requests a restart of the replicas of each app in the scope that has a live release; a scope
 * without an app is the whole project. Returns the restarted apps.
 */
export async function restartApps(tx: Tx, { projectId, appId }: SecretScope): Promise<AppId[]> {
  const rows = await tx
    .updateTable("apps")
    .set({ restarts: sql<number>`restarts + 1` })
    .where("project_id", "=", projectId)
    .where("live_release_id", "is not", null)
    .where("deleting_at", "is", null)
    .$if(appId !== null, (query) => query.where("id", "=", appId as AppId))
    .returning("id")
    .execute();
  return rows.map((row) => row.id);
}

/** Sets one secret. */
export async function putSealed(tx: Tx, scope: SecretScope, secret: SealedSecret): Promise<void> {
  const row = {
    project_id: scope.projectId,
    app_id: scope.appId,
    ...secret,
    updated_at: sql<Date>`clock_timestamp()`,
  };
  await putRows(tx, "secrets", ["project_id", "app_id", "name"], row);
}

/** Removes secrets by name. */
export async function dropSecrets(
  tx: Tx,
  scope: SecretScope,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return;
  await tx
    .deleteFrom("secrets")
    .where("project_id", "=", scope.projectId)
    .where("app_id", "is not distinct from", scope.appId)
    .where("name", "in", names)
    .execute();
}
