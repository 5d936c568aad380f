// Opens the driver that this start uses, and says what it cannot run. A part of `platform.ts`.
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

/** For a look whether the image of a release is there, and for getting it from the registry. */
const lookMs = 60_000;

/** The driver of this start, and the disk of the data folder. */
export type ChosenDriver = OpenedDriver & { readonly disk: SharedDisk };

/**
 * Later starts keep to this driver. The platform itself writes to the disk of its data folder, so
 * that it is watched whatever the driver does. Throws `CannotStart` where the machine cannot run
 * the driver.
 */
export async function openChosenDriver(
  settings: Config & { readonly paths: ReturnType<typeof dataPaths> },
  foundation: Foundation,
): Promise<ChosenDriver> {
  const { log, db } = foundation;
  const driver = await chooseDriver(settings, { log, usedBefore: () => driverOfApps(db) });
  const opened = await openDriver(driver, settings, foundation);
  keepDriver(settings.paths.driverFile, driver);
  const disk = opened.disk ?? (await openDisk(settings, false, foundation));
  return { ...opened, disk };
}

/** Why no replica that wants this could ever start here, in a sentence; null: one could. */
export function whyNeverHere(
  { pools, capabilities }: Driver,
  wanted: HardwareWish,
  advised: Advised,
): string | null {
  return (
    whyNever(pools.all, wanted, advised) ??
    whyNoRuntime(capabilities.containerRuntimes, wanted.containerRuntime, advised) ??
    egressRefusal(capabilities.egress, wanted.egressCidrs, advised) ??
    storagePathRefusal(capabilities, wanted, advised)
  );
}

/**
 * True when what was built is there; also while the backend does not answer: a start waits for it.
 */
export async function isThereHere(builder: Builder, artifact: Artifact): Promise<boolean> {
  try {
    return await builder.isThere(artifact, { signal: AbortSignal.timeout(lookMs) });
  } catch {
    return true;
  }
}
