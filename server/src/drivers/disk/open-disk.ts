// Opens the watch of the data folder's disk, for every driver.
import type { DriverParts } from "#drivers/opened-driver.ts";
import { DiskReserve } from "./disk-reserve.ts";
import { DiskWatch, type DiskWatchOptions } from "./disk-watch.ts";

export type DiskConfig = {
  readonly dataDir: string;
  /**
   * Limits for writes to the disk, and the space to keep free, in bytes. For a limit, null is no
   * limit; for the space, null is a share of the disk's size.
   */
  readonly disk: DiskWatchOptions["limits"];
  readonly paths: { readonly storageDir: string };
};

/** Opens the watch, which ends with the platform. `isUserOwned`: as in `Sandbox`. */
export async function openDisk(
  { dataDir, disk: limits, paths: { storageDir } }: DiskConfig,
  isUserOwned: boolean,
  { log, lifecycle, clock }: Pick<DriverParts, "log" | "lifecycle" | "clock">,
): Promise<DiskWatch> {
  const reserve = new DiskReserve(dataDir);
  const disk = new DiskWatch({ dataDir, storageDir, limits, reserve, isUserOwned, clock, log });
  await disk.open();
  lifecycle.onClose("disk", () => disk.close());
  return disk;
}
