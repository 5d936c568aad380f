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
import type { OpenedDriver } from "#drivers/opened-driver.ts";
import { storagePathRefusal } from "#drivers/storage.ts";
import { whyNever } from "#drivers/pools/fit.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Config, dataPaths } from "./config.ts";

/** For a look whether the image of a release is there, and for getting it from the registry. */
const lookMs = 60_000;

/** Later starts keep to this driver. Throws `CannotStart` where the machine cannot run it. */
export async function openChosenDriver(
  settings: Config & { readonly paths: ReturnType<typeof dataPaths> },
  foundation: Foundation,
): Promise<OpenedDriver> {
  const { log, db } = foundation;
  const driver = await chooseDriver(settings, { log, usedBefore: () => driverOfApps(db) });
  const opened = await openDriver(driver, settings, foundation);
  keepDriver(settings.paths.driverFile, driver);
  return opened;
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
