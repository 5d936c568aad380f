// Opens the driver that this start uses, and says which apps it cannot run. A part of
// `platform.ts`.
import type { Advised } from "@slipway/contract/advice.ts";
import type { HardwareWish } from "#apps/hardware-fields.ts";
import { driverOfApps } from "#deploy/release-store.ts";
import { chooseDriver, keepDriver } from "#drivers/choose-driver.ts";
import { whyNoRuntime } from "#drivers/container-runtimes.ts";
import type { Builder } from "#drivers/builder.ts";
import type { Artifact, Driver } from "#drivers/driver.ts";
import { egressRefusal } from "#drivers/egress.ts";
import { openDriver } from "#drivers/driver-table.ts";
import type { OpenedDriver, SharedDisk } from "#drivers/opened-driver.ts";
import { openDisk } from "#drivers/disk/open-disk.ts";
import { storagePathRefusal } from "#drivers/storage.ts";
import { whyNever } from "#drivers/pools/fit.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Config, dataPaths } from "./config.ts";

/** The timeout for finding the image of a release, or fetching it from the registry. */
const findImageMs = 60_000;

/** The driver of this start, and the disk of the data folder. */
export type ChosenDriver = OpenedDriver & { readonly disk: SharedDisk };

/**
 * Opens the driver, and remembers it for later starts. Opens the disk of the data folder if the
 * driver does not, because the platform itself writes to that disk. Throws `CannotStart` when the
 * machine cannot run the driver.
 */
export async function openChosenDriver(
  settings: Config & { readonly paths: ReturnType<typeof dataPaths> },
  foundation: Foundation,
): Promise<ChosenDriver> {
  const { log, db } = foundation;
  const driver = await chooseDriver(settings, { log, usedBefore: () => driverOfApps(db) });
  const opened = await openDriver(driver, settings, foundation);
  keepDriver(settings.paths.driverFile, driver);
  // `false`: the folders are measured with the platform's own rights.
  const disk = opened.disk ?? (await openDisk(settings, false, foundation));
  return { ...opened, disk };
}

/** Why no replica with these settings could ever start here, as a sentence; null: one could. */
export function whyNeverHere(
  { pools, capabilities }: Driver,
  wish: HardwareWish,
  advised: Advised,
): string | null {
  return (
    whyNever(pools.all, wish, advised) ??
    whyNoRuntime(capabilities.containerRuntimes, wish.containerRuntime, advised) ??
    egressRefusal(capabilities.egress, wish.egressCidrs, advised) ??
    storagePathRefusal(capabilities, wish, advised)
  );
}

/**
 * True when the artifact exists, and also while the backend does not answer, since a start then
 * waits for the backend.
 */
export async function isThereHere(builder: Builder, artifact: Artifact): Promise<boolean> {
  try {
    return await builder.isThere(artifact, { signal: AbortSignal.timeout(findImageMs) });
  } catch {
    return true;
  }
}
