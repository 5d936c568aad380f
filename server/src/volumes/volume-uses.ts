// Counts again and again what the volumes of all projects hold, and keeps it as rows that metering
// bills: each is a time in which a volume held the same. Between two counts it is what the earlier
// one found.
import { sql } from "kysely";
import type { StorageFiles } from "#drivers/storage-files.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { changeRows, type Db } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import type { VolumeSpace } from "./volume-space.ts";
import { readOpenUploads } from "./volume-store.ts";

export type VolumeUsesParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly files: Pick<StorageFiles, "projects">;
  readonly space: Pick<VolumeSpace, "usedBytes">;
  readonly intervalMs: number;
};

/**
 * Without a count for this many intervals nobody knows what a volume held, and nothing is billed.
 */
const gapIntervals = 6;
const megabyte = 1e6;

/** `start` and `stop` it with the platform. */
export function volumeUses(parts: VolumeUsesParts): Loop {
  const { clock, log, intervalMs } = parts;
  return new Loop({
    name: "storage in use",
    intervalMs,
    clock,
    log,
    turn: (signal) => countAll(parts, signal),
  });
}

async function countAll(
  { db, files, space, log, intervalMs }: VolumeUsesParts,
  signal: AbortSignal,
): Promise<void> {
  const noted = await db
    .selectFrom("volume_uses")
    .select("project_id")
    .where("ended_at", "is", null)
    .execute();
  for (const projectId of new Set([
    ...(await files.projects()),
    ...noted.map((row) => row.project_id),
  ])) {
    const bytes = await space.usedBytes(projectId);
    // They take space too, for as long as a day.
    const uploads = await readOpenUploads(db, projectId);
    if (signal.aborted) return;
    if (bytes === null)
      log.warn(
        { projectId },
        "the files of a volume cannot be counted in time, so they are not billed",
      );
    else
      await noteUse(db, {
        projectId,
        sizeMb: Math.round((bytes + uploads.bytes) / megabyte),
        gapMs: gapIntervals * intervalMs,
      });
  }
}

/**
 * Notes what the volume of a project holds now, as if it held that since the last count of the
 * same, unless that was more than `gapMs` ago. The storage of a deleted project counts up to its
 * deletion.
 */
export async function noteUse(
  db: Db,
  {
    projectId,
    sizeMb,
    gapMs,
  }: { readonly projectId: ProjectId; readonly sizeMb: number; readonly gapMs: number },
): Promise<void> {
  const isLost = sql`at - seen_at > ${gapMs} * interval '1 millisecond'`;
  await changeRows(db)`
    with project as (
      select id, deleted_at, clock_timestamp() as at from projects where id = ${projectId}
    ), before as (
      update volume_uses as known
         set seen_at = case when ${isLost} then seen_at else at end,
             ended_at = least(case when ${isLost} then seen_at when size_mb <> ${sizeMb} then at end, deleted_at)
        from project where known.project_id = project.id and known.ended_at is null
      returning known.ended_at
    )
    insert into volume_uses (id, project_id, size_mb, began_at, seen_at)
    select gen_random_uuid()::text, id, ${sizeMb}, at, at from project
     where deleted_at is null and ${sizeMb} > 0 and not exists (select from before where ended_at is null)`;
}
