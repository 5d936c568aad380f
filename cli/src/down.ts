// `slipway down`: stops the platform of this machine, its database and its replicas; what they have
// stored stays.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { platformEnvironment, trustedCheckout, trustOption } from "./checkout.ts";
import { command } from "./command.ts";
import { output } from "./output.ts";

/** Stops the platform. */
export const down = command({
  name: "down",
  about: `Stop the platform on this machine, after its running calls have ended, and the replicas of its apps. Data stays: the
next slipway up goes on with it. Only the platform of the data folder ends
(SLIPWAY_DATA_DIR); with the Docker driver, so do all containers of the same installation, whose database it shares.`,
  examples: ["down"],
  options: trustOption,
  async run(given, machine) {
    const checkout = await trustedCheckout(given, machine);
    if (!existsSync(checkout.node)) {
      machine.tell("Nothing runs: this platform was never set up.");
      output(given, machine, { isStopped: true }, () => undefined);
      return 0;
    }
    const { status } = spawnSync(checkout.node, [join(checkout.root, "tools/stop.ts")], {
      cwd: checkout.root,
      env: platformEnvironment(machine, checkout),
      stdio: ["ignore", given.has("json") ? process.stderr : "inherit", "inherit"],
    });
    output(given, machine, { isStopped: status === 0 }, () => undefined);
    return status ?? 1;
  },
});
