// The checkout of the platform that `up`, `down` and `start` work with: the one that this command
// line belongs to, else the one around the working folder, whose programs run only when the person
// says so: the folder may be a stranger's.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Given, Option } from "./command.ts";
import type { Machine } from "./machine.ts";
import { ownFolder } from "./own-files.ts";
import { plain } from "./plain-text.ts";
import { confirm } from "./prompt.ts";
import { Refused } from "./refused.ts";

/** The platform's program and its data. */
export type Checkout = {
  readonly root: string;
  /**
   * SLIPWAY_DATA_DIR, relative to the working folder; by default `.slipway` in the checkout, as
   * with `npm start`.
   */
  readonly dataDir: string;
  /** The Node.js that the project brings; it exists after the setup. */
  readonly node: string;
  /** This command line belongs to it. */
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
export function findCheckout(machine: Pick<Machine, "environment">): Checkout {
  const own = ownFolder === null ? null : rootAbove(ownFolder);
  const root = own ?? rootAbove(process.cwd());
  if (root === null) throw noPlatformHere();
  const dataDir = machine.environment["SLIPWAY_DATA_DIR"] ?? "";
  return {
    root,
    dataDir: dataDir === "" ? join(root, ".slipway") : resolve(dataDir),
    node: join(root, "node_modules/.bin/node"),
    isOwn: own !== null,
  };
}

/**
 * The same, for a command that runs its programs. Asks first, unless this command line belongs to
 * it or `--yes` was passed.
 */
export async function trustedCheckout(given: Given, machine: Machine): Promise<Checkout> {
  const checkout = findCheckout(machine);
  if (!checkout.isOwn)
    await confirm(given, machine, `Run the programs in ${plain(checkout.root)}?`);
  return checkout;
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

/**
 * The platform's environment: it refuses names that it does not know, and some are of the command
 * line only.
 */
export function platformEnvironment(
  machine: Pick<Machine, "environment">,
  { dataDir }: Checkout,
): NodeJS.ProcessEnv {
  const {
    SLIPWAY_URL: _url,
    SLIPWAY_TOKEN: _token,
    SLIPWAY_PROJECT: _project,
    ...rest
  } = machine.environment as Record<string, string>;
  return { ...rest, SLIPWAY_DATA_DIR: dataDir };
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
