// Counts the storage of all volumes repeatedly, and stores it as rows that metering bills. Each row
// is a period in which a volume held the same. Between two counts, the result of the earlier one
// applies.
import type { Files } from "#drivers/storage-files.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import type { VolumeSpace } from "./volume-space.ts";
import { readOpenUploads } from "./volume-store.ts";
import { noteUse, readUsing } from "./volume-uses-store.ts";

export type VolumeUsesParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly files: Pick<Files, "projects">;
  readonly space: Pick<VolumeSpace, "usedBytes">;
  /** The time between two counts. */
  readonly intervalMs: number;
};

/**
 * After a gap of this many intervals without a count, nobody knows what a volume held during the
 * gap, and nothing is billed for it.
 */
const gapIntervals = 6;
const megabyte = 1e6;

/** Returns the loop that counts; the caller starts and stops it with the platform. */
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
  const noted = await readUsing(db);
  for (const projectId of new Set([...(await files.projects()), ...noted])) {
    const bytes = await space.usedBytes(projectId);
    // The parts of open uploads take space too, for as long as a day.
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
