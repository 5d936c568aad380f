// Rows of the sealed secrets that sign a project's webhooks, and of the project's chosen schedule.
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { changeOne, putRows, type Db, type Tx } from "#store/database.ts";
import type { ScheduleName } from "./schedule.ts";

export type SecretRow = Awaited<ReturnType<typeof readValidSecrets>>[number];

/** The valid secrets, newest first. No locks. */
export async function readValidSecrets(db: Db, projectId: ProjectId) {
  return await db
    .selectFrom("webhook_secrets")
    .select(["id", "secret_sealed", "created_at", "expires_at"])
    .where("project_id", "=", projectId)
    .where(sql<boolean>`(expires_at is null or expires_at > clock_timestamp())`)
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .execute();
}

/** Prepares for a new secret: the present newest one expires after `overlapMs`, all others now. */
export async function retireSecrets(
  tx: Tx,
  projectId: ProjectId,
  overlapMs: number,
): Promise<void> {
  // Only the newest secret does not expire.
  await sql`delete from webhook_secrets where project_id = ${projectId} and expires_at is not null`.execute(
    tx,
  );
  await sql`
    update webhook_secrets set expires_at = clock_timestamp() + ${overlapMs} * interval '1 millisecond'
     where project_id = ${projectId}`.execute(tx);
}

/** Inserts the newest secret. */
export async function insertWebhookSecret(
  tx: Tx,
  row: { readonly id: string; readonly project_id: ProjectId; readonly secret_sealed: string },
): Promise<SecretRow> {
  return await tx
    .insertInto("webhook_secrets")
    .values(row)
    .returning(["id", "secret_sealed", "created_at", "expires_at"])
    .executeTakeFirstOrThrow();
}

/** Deletes a secret; false when the project has no such secret. */
export async function deleteSecret(tx: Tx, projectId: ProjectId, id: string): Promise<boolean> {
  return await changeOne(
    tx,
  )`delete from webhook_secrets where project_id = ${projectId} and id = ${id}`;
}

/** The project's schedule; `standard` if it has chosen none. No locks. */
export async function readSchedule(db: Db, projectId: ProjectId): Promise<ScheduleName> {
  const row = await db
    .selectFrom("webhook_schedules")
    .select("schedule")
    .where("project_id", "=", projectId)
    .executeTakeFirst();
  return row?.schedule ?? "standard";
}

/** Sets the project's schedule. */
export async function putSchedule(
  tx: Tx,
  projectId: ProjectId,
  schedule: ScheduleName,
): Promise<void> {
  await putRows(tx, "webhook_schedules", ["project_id"], { project_id: projectId, schedule });
}
