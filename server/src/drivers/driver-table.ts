// Lists the drivers of this version by name. A new driver needs a row here, and its settings in
// `DriverSettings`.
import type { DockerDriverConfig } from "./docker/open.ts";
import type { DriverParts, OpenedDriver } from "./opened-driver.ts";
import type { ProcessDriverConfig } from "./process/open.ts";

/** The settings of all drivers. */
export type DriverSettings = ProcessDriverConfig & DockerDriverConfig;

/**
 * Whether a new installation should use the driver if nobody has chosen one. `why` is the reason, a
 * part of a sentence; null: the driver works everywhere.
 */
type Suitability = { readonly isSuited: boolean; readonly why: string | null };

type DriverRow = {
  /** Throws `CannotStart` when the machine or the settings do not allow the driver. */
  readonly open: (config: DriverSettings, parts: DriverParts) => Promise<OpenedDriver>;
  readonly suits: (config: DriverSettings) => Promise<Suitability>;
};

/**
 * The best driver comes last. Each is loaded only when it is used: the engine's library is large.
 */
const drivers = {
  process: {
    open: async (config, parts) => {
      const { openProcessDriver } = await import("./process/open.ts");
      return await openProcessDriver(config, parts);
    },
    suits: () => Promise.resolve({ isSuited: true, why: null }),
  },
  docker: {
    open: async (config, parts) => {
      const { openDockerDriver } = await import("./docker/open.ts");
      return await openDockerDriver(config, parts);
    },
    suits: async (config) => {
      const { dockerObstacle } = await import("./docker/open.ts");
      const obstacle = await dockerObstacle(config);
      const fits = `an engine answers at ${config.docker.host}, and images can be built there`;
      return { isSuited: obstacle === null, why: obstacle ?? fits };
    },
  },
} as const satisfies Record<string, DriverRow>;

/** The name of a driver: a value of SLIPWAY_DRIVER, and the `kind` of the driver's artifacts. */
export type DriverName = keyof typeof drivers;

/** The values of SLIPWAY_DRIVER besides `auto`. */
export const driverNames = Object.keys(drivers) as DriverName[];

/** The driver of installations that are older than the choice between drivers. */
export const firstDriver: DriverName = "process";

/** The driver that builds and runs images: advice names it when another driver cannot. */
export const imageDriver: DriverName = "docker";

/** Whether the text is the name of a driver of this version. */
export function isDriverName(text: string | null): text is DriverName {
  return text !== null && Object.hasOwn(drivers, text);
}

/** Opens a driver. Throws `CannotStart` when this machine cannot run it. */
export async function openDriver(
  name: DriverName,
  config: DriverSettings,
  parts: DriverParts,
): Promise<OpenedDriver> {
  return await drivers[name].open(config, parts);
}

/** Returns the best driver for a new installation, and the reason as a part of a sentence. */
export async function suitedDriver(
  config: DriverSettings,
): Promise<{ readonly name: DriverName; readonly why: string }> {
  const obstacles: string[] = [];
  for (const name of driverNames.toReversed()) {
    const { isSuited, why } = await drivers[name].suits(config);
    // A driver that works everywhere is chosen because the better ones are not suited.
    if (isSuited) return { name, why: why ?? obstacles.join("; ") };
    if (why !== null) obstacles.push(why);
  }
  return { name: firstDriver, why: obstacles.join("; ") };
}
