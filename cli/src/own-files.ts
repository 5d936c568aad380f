// Files that come with the command line: in the checkout, in its npm package, or inside the
// executable that is all of it.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
// As a whole: Node.js 24 does not have all of it, and needs none.
import * as sea from "node:sea";

/**
 * Where the program is within the checkout or the package; null: it is an executable, which may be
 * anywhere.
 */
export const ownFolder: string | null = sea.isSea() ? null : import.meta.dirname;

/** The version of the command line. */
export function ownVersion(): string {
  const text =
    ownFolder === null
      ? sea.getAsset("package.json", "utf8")
      : readFileSync(join(ownFolder, "../package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/**
 * The Python files that run apps. Those of the executable are written into a folder that is removed
 * when the program ends.
 */
export function runtimeFolder(): string {
  if (ownFolder !== null) {
    const found = ["../runtime", "../../runtimes/python"].map((path) => join(ownFolder, path));
    return found.find(existsSync) ?? "";
  }
  const folder = mkdtempSync(join(tmpdir(), "slipway-runtime-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const key of sea.getAssetKeys().filter((one) => one.startsWith("runtime/"))) {
    const file = join(folder, key);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, new Uint8Array(sea.getAsset(key)));
  }
  return join(folder, "runtime");
}
