// Files that come with the command line: in the checkout, in an npm package, or inside the
// executable that is all of it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
// As a whole: Node.js before 26 does not have all of it, and needs none.
import * as sea from "node:sea";
import manifest from "#package.json" with { type: "json" };

/**
 * The root of the checkout, or of the package, whose code is in `dist/js`; null: the program is an
 * executable, which may be anywhere.
 */
export const ownRoot: string | null = sea.isSea() ? null : join(import.meta.dirname, "../..");

/** The version of the command line. */
export const ownVersion: string = manifest.version;

const runtimePath = "runtimes/python";

/**
 * The Python files that run apps. Those of the executable are written into a folder that is removed
 * when the program ends.
 */
export function runtimeFolder(): string {
  if (ownRoot !== null) return join(ownRoot, runtimePath);
  const folder = mkdtempSync(join(tmpdir(), "slipway-runtime-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const key of sea.getAssetKeys().filter((one) => one.startsWith(`${runtimePath}/`))) {
    const file = join(folder, key);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, new Uint8Array(sea.getAsset(key)));
  }
  return join(folder, runtimePath);
}
