// Opens the driver of this start.
import type { DriverName } from "./choose-driver.ts";
import type { DockerDriverConfig } from "./docker/open.ts";
import type { DriverParts, OpenedDriver } from "./opened-driver.ts";
import { openProcessDriver, type ProcessDriverConfig } from "./process/open.ts";

/** The settings of all drivers. */
export type DriverConfig = ProcessDriverConfig &
  DockerDriverConfig & { readonly driver: DriverName };

/** Throws `CannotStart` for a driver that this machine cannot run. */
export async function openDriver(config: DriverConfig, parts: DriverParts): Promise<OpenedDriver> {
  if (config.driver === "process") return await openProcessDriver(config, parts);
  // The engine's library is large, and only this driver needs it.
  const { openDockerDriver } = await import("./docker/open.ts");
  return await openDockerDriver(config, parts);
}
