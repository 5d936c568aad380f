// The watch of a data folder's disk, for tests that make a driver or a builder themselves.
import { join } from "node:path";
import { DiskReserve } from "#drivers/disk/disk-reserve.ts";
import { DiskWatch, type DiskWatchOptions } from "#drivers/disk/disk-watch.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";

/** Until it is opened, it refuses nothing and ends nobody. It has no limits but those given. */
export function diskWatch(
  dataDir: string,
  limits: Partial<DiskWatchOptions["limits"]> = {},
  { isUserOwned = false } = {},
): DiskWatch {
  return new DiskWatch({
    dataDir,
    storageDir: join(dataDir, "storage"),
    reserve: new DiskReserve(dataDir),
    isUserOwned,
    limits: { replicaBytes: null, storageBytes: null, reserveBytes: 1, ...limits },
    clock: systemClock,
    log: silentLog,
  });
}
