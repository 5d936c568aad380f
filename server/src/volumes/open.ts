// Opens the volumes of projects, and the loop that deletes old uploads, old addresses of downloads,
// and removed folders.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import type { OpenedDriver, SharedDisk } from "#drivers/opened-driver.ts";
import { Loop } from "#lib/loop.ts";
import { removeOld } from "#lib/retention.ts";
import type { Foundation } from "#store/foundation.ts";
import { VolumeSpace } from "./volume-space.ts";
import * as store from "./volume-store.ts";
import { volumeUses } from "./volume-uses.ts";
import { VolumeUploads } from "./volume-uploads.ts";
import { Volumes } from "./volumes.ts";

export type VolumeSettings = {
  /** The limit for the size of each volume; null: none. */
  readonly disk: { readonly storageBytes: number | null };
  /** The time between two turns of metering. */
  readonly meteringSeconds: number;
};

type Parts = Pick<Foundation, "db" | "clock" | "log" | "lifecycle"> &
  Pick<OpenedDriver, "files"> & { readonly disk: SharedDisk; readonly ownerKeyOf: OwnerKeyOf };
type Removing = Pick<Parts, "disk" | "files" | "db" | "log"> & { readonly space: VolumeSpace };

/** The interval of the loop. The removal of a folder does not wait for it, but nudges the loop. */
const intervalMs = 600_000;
/** How soon the loop tries again to delete removed folders that are still there. */
const retryMs = 2_000;
/** What the app's owner reads when replicas were ended since they wrote in a removed folder. */
const keepsWriting =
  "The app kept writing in a folder that was removed from /persistent-storage: what it writes there is lost, and takes space until it stops. Let it open files by their paths below /persistent-storage, not from a working directory or an open folder that may be removed.";
/** Storage is counted once in this many turns of metering, since counting files is slow. */
const meteringTurns = 10;

/** Opens the volumes. Call it before apps run, since it limits what they write. */
export async function openVolumes(
  { disk: { storageBytes }, meteringSeconds }: VolumeSettings,
  { db, clock, log, lifecycle, disk, files, ownerKeyOf }: Parts,
): Promise<{ readonly volumes: Volumes; readonly volumeUploads: VolumeUploads }> {
  const space = new VolumeSpace({ db, clock, files, disk, ownerKeyOf, bytesMax: storageBytes });
  await space.open();
  lifecycle.onClose("sizes of volumes", () => space.close());
  let cancelRetry = (): void => undefined;
  const turn = async (signal: AbortSignal): Promise<void> => {
    cancelRetry();
    // Rows must not look old because the clock is wrong.
    if (clock.isSettled()) await removeOld(store.oldVolumeRows(db), signal);
    const isDone = await removeFolders({ db, files, disk, space, log }, signal);
    if (!isDone && !signal.aborted) cancelRetry = clock.after(retryMs, () => loop.nudge());
  };
  const loop = new Loop({ name: "volumes", turn, intervalMs, clock, log });
  const loops = [loop];
  if (files !== null) {
    const countEveryMs = meteringSeconds * meteringTurns * 1000;
    loops.push(volumeUses({ db, clock, log, files, space, intervalMs: countEveryMs }));
  }
  lifecycle.onStart(() => {
    for (const each of loops) each.start();
  });
  lifecycle.onClose("volumes", async () => {
    await Promise.all(loops.map((each) => each.stop()));
    cancelRetry();
  });
  return {
    volumes: new Volumes({ db, files, space, onRemoved: () => loop.nudge() }),
    volumeUploads: new VolumeUploads({ db, clock, files, space, disk, ownerKeyOf }),
  };
}

/**
 * Deletes removed folders; false while some are left. Ends the replicas that keep writing in a
 * removed folder.
 */
async function removeFolders(
  { db, files, disk, space, log }: Removing,
  signal: AbortSignal,
): Promise<boolean> {
  if (files === null) return true;
  // How many folders remain, and the projects whose folders are gone or were written to meanwhile.
  const { left, gone, written } = await files.collect((ids) => store.readKept(db, ids), signal);
  for (const projectId of gone) space.noteRemoved(projectId);
  for (const projectId of written) {
    log.warn(
      { projectId },
      "replicas ended: they kept writing in a folder that was removed from the storage",
    );
    disk.endReplicas(projectId, keepsWriting);
  }
  return left === 0;
}
