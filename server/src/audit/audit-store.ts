// Rows of the audit log. They are only ever added.
import type { Insertable, Selectable } from "kysely";
import type { Db } from "#store/database.ts";
import type { AuditLogTable } from "#store/tables.ts";
import type { ProjectId } from "#lib/ids.ts";

export type AuditRow = Selectable<AuditLogTable>;

/** What to read; absent conditions do not narrow. Times: `from` included, `to` not. */
export type AuditQuery = {
  readonly projectId: ProjectId;
  readonly from?: Date;
  readonly to?: Date;
  readonly action?: string;
  readonly actorId?: string;
  readonly outcome?: "success" | "failure";
  /** Only rows older than this one: the id of the last row of the page before. */
  readonly beforeId?: number;
  readonly limit: number;
};

/** Adds one row. */
export async function insertEntry(tx: Db, row: Insertable<AuditLogTable>): Promise<void> {
  await tx.insertInto("audit_log").values(row).execute();
}

/** Newest first by id, so that pages neither repeat nor leave out rows while new ones come in. One row more than `limit` says that there are more. */
export async function listEntries(db: Db, query: AuditQuery): Promise<AuditRow[]> {
  let rows = db.selectFrom("audit_log").selectAll().where("project_id", "=", query.projectId);
  if (query.from !== undefined) rows = rows.where("at", ">=", query.from);
  if (query.to !== undefined) rows = rows.where("at", "<", query.to);
  if (query.action !== undefined) rows = rows.where("action", "=", query.action);
  if (query.actorId !== undefined) rows = rows.where("actor_id", "=", query.actorId);
  if (query.outcome !== undefined) rows = rows.where("outcome", "=", query.outcome);
  if (query.beforeId !== undefined) rows = rows.where("id", "<", query.beforeId);
  return rows
    .orderBy("id", "desc")
    .limit(query.limit + 1)
    .execute();
}
