// Counts again and again what the volumes of all projects hold, and keeps it as rows that metering
// bills: each is a time in which a volume held the same. Between two counts it is what the earlier
// one found.
import type { Files } from "#drivers/storage-files.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import type { VolumeSpace } from "./volume-space.ts";
import { readOpenUploads } from "./volume-store.ts";
import { noteUse, readUsing } from "./volume-uses-store.ts";

export type VolumeUsesParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly files: Pick<Files, "projects">;
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
  const noted = await readUsing(db);
  for (const projectId of new Set([...(await files.projects()), ...noted])) {
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
