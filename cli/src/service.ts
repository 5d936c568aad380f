// `slipway service`: the platform as a service of systemd, which starts it with the machine.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { command } from "./command.ts";
import {
  findInstallation,
  trustedInstallation,
  trustOption,
  type Installation,
} from "./installation.ts";
import type { Machine } from "./machine.ts";
import { output, printJson } from "./output.ts";
import { plain } from "./plain-text.ts";
import { changeableByOthers } from "./program-owner.ts";
import { Refused } from "./refused.ts";
import { replaceFile } from "./replace-file.ts";
import { stopService } from "./service-stop.ts";
import { serviceSettings, serviceUnit, settingsFile, settingsMissing } from "./service-unit.ts";
import { socketUnit, socketUnitFile } from "./socket-unit.ts";
import {
  canHoldSocket,
  hasService,
  hasSystemd,
  isActive,
  lastLines,
  systemctl,
  unitFile,
} from "./systemd.ts";
import { signInToService } from "./up.ts";

/** The number of restarts at which waiting for the service ends. */
const restartsMax = 3;

const install = command({
  name: "service install",
  about: `Let systemd run the platform, now and whenever the machine starts. Needs root. Settings in
front of the command (sudo SLIPWAY_PORT=80 slipway …) go to ${settingsFile}, unless that file is there. A second
time it renews the unit, and restarts the platform when the unit has changed.`,
  examples: ["service install"],
  options: trustOption,
  async run(given, machine) {
    checkSystemd("install");
    const installation = await trustedInstallation(given, machine);
    checkDataDir(installation);
    checkReady(installation);
    checkOwner(installation);
    keepSettings(machine);
    const isChanged = renew(unitFile, serviceUnit(installation));
    const socket = canHoldSocket() ? socketUnit() : null;
    const isSocketChanged = socket === null ? removeSocket() : renew(socketUnitFile, socket);
    // Always: an earlier installation may have been interrupted here.
    systemctl("daemon-reload");
    systemctl("enable", "slipway");
    if (socket !== null) systemctl("enable", "slipway.socket");
    // Systemd opens no socket while its service runs.
    if (isSocketChanged) systemctl("stop", "slipway");
    systemctl(isChanged ? "restart" : "start", "slipway");
    machine.tell(
      `The service slipway is installed: ${unitFile}, with the settings in ${settingsFile}.`,
    );
    await signInToService({ given, installation, machine }, startCheck());
  },
});

const remove = command({
  name: "service remove",
  about: `Stop the platform that systemd runs, and its replicas, and remove its unit. Needs root. Data and settings stay.`,
  examples: ["service remove"],
  options: trustOption,
  async run(given, machine) {
    checkSystemd("remove");
    const installation = await trustedInstallation(given, machine);
    const isInstalled = existsSync(unitFile);
    checkDataDir(installation);
    if (isInstalled) {
      systemctl("disable", "slipway");
      stopService(installation);
      removeSocket();
      rmSync(unitFile, { force: true });
      systemctl("daemon-reload");
    }
    output(given, machine, { isInstalled: false, wasInstalled: isInstalled }, () =>
      machine.print(
        isInstalled
          ? `The service slipway is removed. Its data stays in ${installation.dataDir}, and its settings in ${settingsFile}.`
          : "There is no service slipway.",
      ),
    );
  },
});

const print = command({
  name: "service print",
  about: "Print the unit that install would write, for other ways to install it.",
  examples: ["service print"],
  run: (given, machine) => {
    const unit = serviceUnit(findInstallation(machine));
    if (given.has("json")) printJson(machine, { file: unitFile, unit });
    else machine.write(unit);
    return Promise.resolve();
  },
});

/** The commands, by their verbs. */
export const service = { install, remove, print } as const;

function checkSystemd(verb: string): void {
  if (!hasSystemd())
    throw new Refused(
      "Systemd does not run here, so that there are no services. To run the platform in the background: slipway up",
    );
  if (process.getuid?.() !== 0)
    throw new Refused(`A service needs root. Type: sudo slipway service ${verb}`);
}

/** Writes the unit; false when it is there as it should be. */
function renew(file: string, unit: string): boolean {
  if (existsSync(file) && readFileSync(file, "utf8") === unit) return false;
  // Other users read the one of the service, to find out whose data it uses.
  replaceFile(file, unit, 0o644);
  return true;
}

/** False when there is none. */
function removeSocket(): boolean {
  if (!existsSync(socketUnitFile)) return false;
  systemctl("disable", "slipway.socket");
  rmSync(socketUnitFile);
  return true;
}

/** Refuses to touch the service of another data folder. */
function checkDataDir(installation: Installation): void {
  if (!existsSync(unitFile) || hasService(installation)) return;
  throw new Refused(
    `The service slipway has another data folder than ${installation.dataDir}: see SLIPWAY_DATA_DIR in ${unitFile}. Set this variable to the same folder, and try again.`,
  );
}

function checkReady({ root, node, dataDir }: Installation): void {
  if (/[/\\]_npx[/\\]/.test(root))
    throw new Refused(
      "npx keeps its packages only for a while. Type: npm install --global slipway, then: slipway service install",
    );
  if (!existsSync(node))
    throw new Refused("This platform was never set up. Type first: slipway up, then slipway down");
  const pidFile = `${dataDir}/slipway.pid`;
  if (isActive() || !existsSync(pidFile)) return;
  // A platform that was killed has left the file.
  if (!existsSync(`/proc/${readFileSync(pidFile, "utf8").trim()}`)) return;
  throw new Refused(
    `A platform that is no service uses ${dataDir}. Stop it first: slipway down. Then: slipway service install`,
  );
}

/** Refuses a program that root would run and others can change. */
function checkOwner(installation: Installation): void {
  const found = changeableByOthers(installation);
  if (found === null) return;
  throw new Refused(
    `${plain(found)} can be changed by users other than root, and the service would run it as root. Install the package for all users (npm install --global), or give the checkout to root in a folder such as /opt: sudo chown -R root: /opt/slipway`,
  );
}

/** Writes the settings, unless a person or an earlier installation has. */
function keepSettings(machine: Machine): void {
  const settings = serviceSettings(machine.environment);
  if (!existsSync(settingsFile)) {
    if (existsSync(unitFile)) throw new Refused(settingsMissing);
    return replaceFile(settingsFile, settings, 0o600);
  }
  if (/^\w/m.test(settings) && readFileSync(settingsFile, "utf8") !== settings)
    machine.tell(`${settingsFile} stays as it is: the settings of this command are not used.`);
}

/**
 * Returns a check that throws, with the last lines of the log, when the service ends again and
 * again from now on. It may have ended often before, with other settings.
 */
function startCheck(): () => void {
  const before = countRestarts();
  return () => {
    if (countRestarts() - before < restartsMax) return;
    throw new Refused(
      `${lastLines("slipway")}\n\nThe service ends at its start; see above. Its settings are in ${settingsFile}. To try again: systemctl restart slipway`,
    );
  };
}

function countRestarts(): number {
  const shown = ["show", "--property=NRestarts", "--value", "slipway"];
  return Number(spawnSync("systemctl", shown, { encoding: "utf8" }).stdout);
}
