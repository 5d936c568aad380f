// Opens the driver named in the settings. The default is the process driver, the only one in this version.
import { CannotStart } from "#lib/cannot-start.ts";
import type { DriverParts, OpenedDriver } from "./opened-driver.ts";
import { open as openProcessDriver, type ProcessDriverConfig } from "./process/open.ts";

/** The settings of all drivers. */
export type DriverConfig = ProcessDriverConfig & { readonly driver: string | null };

/** Throws `CannotStart` for a driver that this version does not have or this machine cannot run. */
export async function openDriver(config: DriverConfig, parts: DriverParts): Promise<OpenedDriver> {
  if (config.driver !== null && config.driver !== "process") {
    throw new CannotStart(
      `SLIPWAY_DRIVER is ${config.driver}, but this version has only the process driver; set it to process or leave it out.`,
    );
  }
  return await openProcessDriver(config, parts);
}
