// What the Docker driver can do for apps, as `Capabilities` in `driver.ts` explains.
import type { Firewall } from "#drivers/app-firewall.ts";
import type { Capabilities } from "#drivers/driver.ts";
import type { EngineRuntimes } from "./engine-runtimes.ts";

const noFirewall = {
  canLimit: false,
  reason: "firewall rules for containers are not set (SLIPWAY_APP_NETWORK, root, the program nft)",
} as const;

/**
 * Returns what the driver supports, with the engine's current runtimes. `firewall` is null when
 * firewall rules cannot be set on this machine.
 */
export function dockerCapabilities(
  firewall: Firewall | null,
  runtimes: EngineRuntimes,
): Capabilities {
  return {
    dockerfile: true,
    baseImage: true,
    aptPackages: true,
    condaPackages: true,
    memoryLimit: true,
    cpuLimit: true,
    egress: firewall === null ? noFirewall : { canLimit: true, allowed: firewall.allowed },
    storagePaths: true,
    // A getter, since the engine's operator may change its runtimes.
    get containerRuntimes() {
      return runtimes.now;
    },
  };
}
