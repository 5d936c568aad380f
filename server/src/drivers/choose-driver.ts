// Chooses the driver when the platform starts: the one that SLIPWAY_DRIVER names; with `auto` the
// one that the installation has used so far, since no other driver runs its releases; and in a new
// installation the best driver that suits the machine.
import { existsSync, readFileSync } from "node:fs";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Log } from "#lib/log.ts";
import { writeFileSafely } from "#lib/write-file.ts";
import {
  driverNames,
  isDriverName,
  suitedDriver,
  type DriverName,
  type DriverSettings,
} from "./driver-table.ts";

type ChoiceSettings = DriverSettings & {
  readonly driver: DriverName | "auto";
  /** `driverFile` contains the name of the driver of the latest start. */
  readonly paths: { readonly driverFile: string };
};

type Parts = {
  readonly log: Log;
  /**
   * Returns the driver of the releases in the database; null when the database has no apps. Called
   * when the file is missing.
   */
  readonly usedBefore: () => Promise<DriverName | null>;
};

/** Logs its choice in one line. Throws `CannotStart` when the file names no driver. */
export async function chooseDriver(
  config: ChoiceSettings,
  { log, usedBefore }: Parts,
): Promise<DriverName> {
  const { driver, paths } = config;
  const used = readDriver(paths.driverFile) ?? (await usedBefore());
  const consequence =
    "what was built by one driver does not run with another, so each app must be deployed again";
  if (driver !== "auto") {
    if (used === null || used === driver) {
      log.info(`driver ${driver}: SLIPWAY_DRIVER names it`);
    } else {
      log.warn(
        `driver ${driver}: SLIPWAY_DRIVER names it, but until now it was ${used}; ${consequence}`,
      );
    }
    return driver;
  }
  if (used !== null) {
    log.info(
      `driver ${used}: this installation has used it; to change it, set SLIPWAY_DRIVER (${consequence})`,
    );
    return used;
  }
  const { name, why } = await suitedDriver(config);
  const others = driverNames.filter((other) => other !== name).join(" or ");
  log.info(
    `driver ${name}: ${why}; to change it, set SLIPWAY_DRIVER=${others} before the first app is deployed`,
  );
  return name;
}

/** Stores the driver's name for later starts with `auto`. */
export function keepDriver(file: string, driver: DriverName): void {
  if (readDriver(file) !== driver) writeFileSafely(file, `${driver}\n`);
}

function readDriver(file: string): DriverName | null {
  if (!existsSync(file)) return null;
  const name = readFileSync(file, "utf8").trim();
  if (isDriverName(name)) return name;
  throw new CannotStart(
    `${file} must contain ${driverNames.join(" or ")}: the driver that made the releases of this platform.`,
  );
}
