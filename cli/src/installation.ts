// The platform that `up`, `down` and `start` work with: that of the package or the checkout which
// this command line belongs to, else the checkout around the working folder, whose programs run
// only when the person says so: the folder may be a stranger's.
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Given, Option } from "./command.ts";
import type { Machine } from "./machine.ts";
import { ownRoot } from "./own-files.ts";
import { plain } from "./plain-text.ts";
import { confirm } from "./prompt.ts";
import { Refused } from "./refused.ts";

/** The platform's program and its data. */
export type Installation = {
  readonly root: string;
  /**
   * SLIPWAY_DATA_DIR, relative to the working folder; by default `.slipway` in a checkout, as with
   * `npm start`, and for a package a folder of the machine or of the user.
   */
  readonly dataDir: string;
  /** Where its programs run: paths in settings are relative to it. */
  readonly cwd: string;
  /** The Node.js that runs it; the one that a checkout brings exists after the setup. */
  readonly node: string;
  /** Words after `node` that run the platform, and those that stop it. */
  readonly platform: readonly string[];
  readonly stop: readonly string[];
  /** Words after `node` that make or restore a backup. */
  readonly backup: readonly string[];
  /** A checkout installs its packages and builds its dashboard; a package has both. */
  readonly isCheckout: boolean;
  /** True when this command line belongs to the installation. */
  readonly isOwn: boolean;
};

/** The option of commands that run programs of a checkout. */
export const trustOption = {
  yes: {
    value: null,
    about: "Run the programs of the checkout around this folder without asking.",
    short: "y",
  },
} as const satisfies Record<string, Option>;

/** Throws `Refused` that says where a platform is to be had. */
export function findInstallation({ environment }: Pick<Machine, "environment">): Installation {
  const found = ownPackage(environment) ?? checkout();
  if (found === null) throw noPlatformHere();
  const dataDir = environment["SLIPWAY_DATA_DIR"] ?? "";
  return dataDir === "" ? found : { ...found, dataDir: resolve(dataDir) };
}

/** Null: this command line is no part of a package with the platform. */
function ownPackage(environment: Machine["environment"]): Installation | null {
  if (ownRoot === null) return null;
  const stop = join(ownRoot, "dist/js/stop.js");
  if (!existsSync(stop)) return null;
  return {
    root: ownRoot,
    dataDir: usualDataDir(environment),
    cwd: process.cwd(),
    node: process.execPath,
    platform: [join(ownRoot, "bin/slipway.js"), "start"],
    // Not a word about what is experimental in older Node.js.
    stop: ["--disable-warning=ExperimentalWarning", stop],
    backup: ["--disable-warning=ExperimentalWarning", join(ownRoot, "dist/js/backup.js")],
    isCheckout: false,
    isOwn: true,
  };
}

/** Null: neither this command line nor the working folder is in one. */
function checkout(): Installation | null {
  const own = ownRoot === null ? null : rootAbove(ownRoot);
  const root = own ?? rootAbove(process.cwd());
  if (root === null) return null;
  return {
    root,
    dataDir: join(root, ".slipway"),
    cwd: root,
    node: join(root, "node_modules/.bin/node"),
    platform: [join(root, "server/src/main.ts")],
    stop: [join(root, "tools/stop.ts")],
    backup: [join(root, "server/src/backup-main.ts")],
    isCheckout: true,
    isOwn: own !== null,
  };
}

/** Where services keep their data: of the machine for root, else of the user. */
function usualDataDir(environment: Machine["environment"]): string {
  if (process.getuid?.() === 0) return "/var/lib/slipway";
  const given = environment["XDG_DATA_HOME"] ?? "";
  return join(given === "" ? join(homedir(), ".local/share") : given, "slipway");
}

/**
 * The same, for a command that runs its programs. Asks first, unless this command line belongs to
 * it or `--yes` was passed.
 */
export async function trustedInstallation(given: Given, machine: Machine): Promise<Installation> {
  const installation = findInstallation(machine);
  if (!installation.isOwn)
    await confirm(given, machine, `Run the programs in ${plain(installation.root)}?`);
  return installation;
}

/** For a command line that was installed without the platform. */
export function noPlatformHere(cause?: unknown): Refused {
  return new Refused(
    "The platform is not part of this package, which is the command line alone.\n" +
      "To run a platform on this machine, get Slipway's source (its git repository) and type there: npm start\n" +
      "To use a platform that runs somewhere: slipway login --url <its URL>",
    { cause },
  );
}

/** The settings of the command line, which the platform does not know. */
export const commandLineSettings: readonly string[] = [
  "SLIPWAY_URL",
  "SLIPWAY_TOKEN",
  "SLIPWAY_PROJECT",
  "SLIPWAY_CONTAINER",
];

/** The platform's environment: it refuses names that it does not know. */
export function platformEnvironment(
  machine: Pick<Machine, "environment">,
  { dataDir }: Installation,
): NodeJS.ProcessEnv {
  const known = Object.entries(machine.environment).filter(
    ([name]) => !commandLineSettings.includes(name),
  );
  return { ...Object.fromEntries(known), SLIPWAY_DATA_DIR: dataDir };
}

function rootAbove(start: string): string | null {
  for (let folder = start; ; folder = dirname(folder)) {
    if (isRoot(folder)) return folder;
    if (dirname(folder) === folder) return null;
  }
}

function isRoot(folder: string): boolean {
  const manifest = join(folder, "package.json");
  if (!existsSync(manifest) || !existsSync(join(folder, "tools/setup.mjs"))) return false;
  return readFileSync(manifest, "utf8").includes('"slipway-workspace"');
}
