// The drivers of this version, by name. Who adds one adds a row here, and its settings to the type.
import type { DockerDriverConfig } from "./docker/open.ts";
import type { DriverParts, OpenedDriver } from "./opened-driver.ts";
import type { ProcessDriverConfig } from "./process/open.ts";

/** The settings of all drivers. */
export type DriverSettings = ProcessDriverConfig & DockerDriverConfig;

/**
 * Whether an installation should begin with a driver where nobody has chosen one, with the reason,
 * a part of a sentence; null: it works everywhere.
 */
type Suitability = { readonly isSuited: boolean; readonly why: string | null };

type DriverRow = {
  /** Throws `CannotStart` where the machine, or the settings, do not allow it. */
  readonly open: (config: DriverSettings, parts: DriverParts) => Promise<OpenedDriver>;
  readonly suits: (config: DriverSettings) => Promise<Suitability>;
};

/** The better one comes last. Each is loaded when it is used: the engine's library is large. */
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

/** The name of a driver: what SLIPWAY_DRIVER takes, and the `kind` of what it builds. */
export type DriverName = keyof typeof drivers;

/** What SLIPWAY_DRIVER takes beside `auto`. */
export const driverNames = Object.keys(drivers) as DriverName[];

/** What installations used before there was a choice. */
export const firstDriver: DriverName = "process";

/** Builds images and runs them; named in advice where another driver cannot. */
export const imageDriver: DriverName = "docker";

/** True for a driver of this version. */
export function isDriverName(text: string | null): text is DriverName {
  return text !== null && Object.hasOwn(drivers, text);
}

/** Opens the driver of this start. Throws `CannotStart` for one that this machine cannot run. */
export async function openDriver(
  name: DriverName,
  config: DriverSettings,
  parts: DriverParts,
): Promise<OpenedDriver> {
  return await drivers[name].open(config, parts);
}

/** The best driver for a new installation, and why it is that one, in a part of a sentence. */
export async function suitedDriver(
  config: DriverSettings,
): Promise<{ readonly name: DriverName; readonly why: string }> {
  const obstacles: string[] = [];
  for (const name of driverNames.toReversed()) {
    const { isSuited, why } = await drivers[name].suits(config);
    if (isSuited) return { name, why: why ?? obstacles.join("; ") };
    if (why !== null) obstacles.push(why);
  }
  return { name: firstDriver, why: obstacles.join("; ") };
}
