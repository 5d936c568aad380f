// `slipway down`: stops the platform of this machine, its database and its replicas; what they have
// stored stays.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { platformEnvironment, trustedInstallation, trustOption } from "./installation.ts";
import { command } from "./command.ts";
import { output } from "./output.ts";
import { refuseInOwnContainer } from "./own-container.ts";
import { stopService } from "./service-stop.ts";
import { hasService } from "./systemd.ts";

/** Stops the platform. */
export const down = command({
  name: "down",
  about: `Stop the platform on this machine, after its running calls have ended, and the replicas of its apps. Data stays: the
next slipway up goes on with it. Only the platform of the data folder ends
(SLIPWAY_DATA_DIR); with the Docker driver, so do all containers of the same installation, whose database it shares.`,
  examples: ["down"],
  options: trustOption,
  async run(given, machine) {
    refuseInOwnContainer(machine, "stop");
    const installation = await trustedInstallation(given, machine);
    if (!existsSync(installation.node)) {
      machine.tell("Nothing runs: this platform was never set up.");
      output(given, machine, { isStopped: true }, () => undefined);
      return 0;
    }
    if (hasService(installation)) {
      stopService(installation);
      machine.tell(
        "The service slipway has stopped, and its replicas have ended. To start it: systemctl start slipway",
      );
      output(given, machine, { isStopped: true }, () => undefined);
      return 0;
    }
    const { status } = spawnSync(installation.node, installation.stop, {
      cwd: installation.cwd,
      env: platformEnvironment(machine, installation),
      stdio: ["ignore", given.has("json") ? process.stderr : "inherit", "inherit"],
    });
    output(given, machine, { isStopped: status === 0 }, () => undefined);
    return status ?? 1;
  },
});
