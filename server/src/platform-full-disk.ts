// A start on a full or read-only disk: releases the reserve, and has the message for the operator
// when that does not suffice.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isBelow, readMounts } from "#drivers/process/system-mounts.ts";
import { DiskReserve } from "#drivers/disk/disk-reserve.ts";
import { diskSpace, measure, type DiskUsage } from "#drivers/disk/disk-usage.ts";
import { errorMessage } from "#lib/error-message.ts";
import { sizeText } from "#lib/disk-full.ts";
import { dataPaths } from "./config.ts";

/**
 * With less free space than this, the reserve is released. The database needs far less to start: a
 * few files of 16 MB.
 */
const neededBytes = 100_000_000;

/**
 * Releases the disk space that an earlier process reserved, if the start may need it. The space is
 * reserved again later, also by a platform that is already running in the folder.
 */
export async function releaseReserve(dataDir: string): Promise<void> {
  if (!existsSync(dataDir)) return;
  const { freeBytes, freeFiles } = await diskSpace(dataDir);
  if (freeBytes < neededBytes || freeFiles === 0) new DiskReserve(dataDir).release();
}

/**
 * Instructions for the operator: which disk, how much is free, what uses it, and what may be
 * deleted.
 */
export async function fullDiskText(dataDir: string, error: unknown): Promise<string> {
  const { buildsDir, replicasDir, storageDir, sourcesDir, uploadsDir, postgresDir } =
    dataPaths(dataDir);
  const { freeBytes, totalBytes, freeFiles } = await diskSpace(dataDir);
  const reason = errorMessage(error);
  const disk = `The disk of the data folder ${dataDir} (mounted on ${mountOf(dataDir)})`;
  if (reason.includes("Read-only file system") || reason.includes("EROFS")) {
    return `${disk} is read-only, so the platform cannot start: mount it writable (its system log says why it is not).`;
  }
  const cache = join(buildsDir, "cache");
  const safe = [join(cache, "downloads"), join(cache, "tools"), sourcesDir];
  // A nested folder comes before its parent, whose size then covers only the rest.
  const folders = [
    ...safe,
    join(cache, "environments"),
    buildsDir,
    replicasDir,
    storageDir,
    uploadsDir,
    postgresDir,
  ];
  // A folder with too many files to measure comes first.
  const bytesOf = (usage: DiskUsage | null): number => usage?.bytes ?? Number.MAX_SAFE_INTEGER;
  const measured = await measure(folders, {
    isUserOwned: false,
    signal: new AbortController().signal,
  });
  const sizes = [...measured].sort(([, a], [, b]) => bytesOf(b) - bytesOf(a));
  const list = sizes.map(([folder, usage]) => {
    const size = usage === null ? "many files" : sizeText(usage.bytes);
    return `  ${size.padStart(10)}  ${folder}`;
  });
  const freeSize = `${sizeText(freeBytes)} of ${sizeText(totalBytes)}`;
  const free = freeFiles === null ? freeSize : `${freeSize} and ${freeFiles} files`;
  return [
    `${disk} is full: ${free} are free. The platform cannot start (${reason.slice(0, 300)}).`,
    ...(list.length === 0 ? [] : ["It holds:", ...list]),
    `Safe to delete while the platform does not run: ${safe.join(", ")} (they are recreated).`,
    `Then check ${storageDir} (storage of apps, one folder per project), or use a larger disk.`,
  ].join("\n");
}

function mountOf(folder: string): string {
  try {
    const mounts = readMounts(readFileSync("/proc/self/mountinfo", "utf8")).filter(({ at }) =>
      isBelow(folder, at),
    );
    // The longest path is the mount point nearest to the folder.
    return mounts.sort((a, b) => b.at.length - a.at.length)[0]?.at ?? "/";
  } catch {
    return "unknown";
  }
}
