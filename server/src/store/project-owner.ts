// Whom fair shares count a project to: one person may own many projects, and has one share with all
// of them.
import { sql, type RawBuilder } from "kysely";

/**
 * The longest-standing owner of the project in that column; the project itself when it has none.
 */
export function ownerKey(projectId: RawBuilder<unknown>): RawBuilder<string> {
  return sql<string>`coalesce((
    select members.person_id::text from members
     where members.project_id = ${projectId} and members.role = 'owner'
     order by members.created_at, members.person_id limit 1), ${projectId})`;
}
