// Queries on the storage that volumes have used over time, which metering bills.
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { changeRows, type Db } from "#store/database.ts";

/** The projects whose volumes held something at the last count. */
export async function readUsing(db: Db): Promise<readonly ProjectId[]> {
  const rows = await db
    .selectFrom("volume_uses")
    .select("project_id")
    .where("ended_at", "is", null)
    .execute();
  return rows.map((row) => row.project_id);
}

/**
 * Notes that the volume of a project holds `sizeMb` now. The size found by the last count is billed
 * until now, unless that count was more than `gapMs` ago. The storage of a deleted project is
 * billed up to its deletion.
 */
export async function noteUse(
  db: Db,
  {
    projectId,
    sizeMb,
    gapMs,
  }: { readonly projectId: ProjectId; readonly sizeMb: number; readonly gapMs: number },
): Promise<void> {
  const isGap = sql`at - seen_at > ${gapMs} * interval '1 millisecond'`;
  // After a gap, the project's open row ends when its size was last counted; else it ends now if
  // the size has changed. The project's deletion may end the row earlier: `least` ignores a time
  // that is null.
  await changeRows(db)`
    with project as (
      select id, deleted_at, clock_timestamp() as at from projects where id = ${projectId}
    ), known_row as (
      update volume_uses as known
         set seen_at = case when ${isGap} then seen_at else at end,
             ended_at = least(case when ${isGap} then seen_at when size_mb <> ${sizeMb} then at end, deleted_at)
        from project where known.project_id = project.id and known.ended_at is null
      returning known.ended_at
    )
    insert into volume_uses (id, project_id, size_mb, began_at, seen_at)
    select gen_random_uuid()::text, id, ${sizeMb}, at, at from project
     where deleted_at is null and ${sizeMb} > 0 and not exists (select from known_row where ended_at is null)`;
}
