// Says to whom a project counts in fair shares: a person who owns many projects has one share for
// all of them.
import { sql, type RawBuilder } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { readRow, type Db } from "./database.ts";

/**
 * The id of the longest-standing owner of the project whose id is the expression `projectId`; the
 * project's id when it has no owner.
 */
export function ownerKey(projectId: RawBuilder<unknown>): RawBuilder<string> {
  return sql<string>`coalesce((
    select members.person_id::text from members
     where members.project_id = ${projectId} and members.role = 'owner'
     order by members.created_at, members.person_id limit 1), ${projectId})`;
}

/** The project's key by `ownerKey`. No locks. */
export async function readOwnerKey(db: Db, projectId: ProjectId): Promise<string> {
  const key = ownerKey(sql`${projectId}::text`);
  const row = await readRow<{ readonly key: string }>(db)`select ${key} as key`;
  return row?.key ?? projectId;
}
