// Stops the service of the platform and ends its replicas, for `slipway down` and `service remove`.
import { rmSync, writeFileSync } from "node:fs";
import type { Installation } from "./installation.ts";
import { Refused } from "./refused.ts";
import { settingsFile, stopUnit } from "./service-unit.ts";
import { lastLines, systemctl } from "./systemd.ts";

/** In memory: it is needed once. */
const stopUnitFile = "/run/systemd/system/slipway-stop.service";

/** Stops the service until the machine starts again, and ends the replicas that it leaves. */
export function stopService(installation: Installation): void {
  if (process.getuid?.() !== 0)
    throw new Refused(
      "The platform of this data folder is the service slipway, which only root can stop. Type: sudo slipway down",
    );
  systemctl("stop", "slipway");
  endReplicas(installation);
}

/** A unit of its own ends them, so that the settings are read as systemd reads them. */
function endReplicas(installation: Installation): void {
  writeFileSync(stopUnitFile, stopUnit(installation));
  try {
    systemctl("daemon-reload");
    systemctl("start", "slipway-stop");
  } catch (error) {
    throw new Refused(
      `${lastLines("slipway-stop")}\n\nThe service has stopped, but its replicas could not be ended; see above. Its settings are in ${settingsFile}. Then repeat this command.`,
      { cause: error },
    );
  } finally {
    rmSync(stopUnitFile, { force: true });
  }
}
