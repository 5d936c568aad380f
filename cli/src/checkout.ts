// The checkout of the platform that `up`, `down` and `start` work with: the one that this command line belongs to, else the one
// around the working folder.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Machine } from "./machine.ts";
import { Refused } from "./refused.ts";

/** The platform's program and its data. */
export type Checkout = {
  readonly root: string;
  /** SLIPWAY_DATA_DIR, relative to the working folder; by default `.slipway` in the checkout, as with `npm start`. */
  readonly dataDir: string;
  /** The Node.js that the project brings; it exists after the setup. */
  readonly node: string;
};

/** Throws `Refused` that says where a platform is to be had. */
export function findCheckout(machine: Pick<Machine, "environment">): Checkout {
  const root = rootAbove(import.meta.dirname) ?? rootAbove(process.cwd());
  if (root === null) throw noPlatformHere();
  const dataDir = machine.environment["SLIPWAY_DATA_DIR"] ?? "";
  return {
    root,
    dataDir: dataDir === "" ? join(root, ".slipway") : resolve(dataDir),
    node: join(root, "node_modules/.bin/node"),
  };
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

/** The platform's environment: it refuses names that it does not know, and some are of the command line only. */
export function platformEnvironment(machine: Pick<Machine, "environment">, { dataDir }: Checkout): NodeJS.ProcessEnv {
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
