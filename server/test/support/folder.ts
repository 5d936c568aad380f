// Temporary folders for tests, removed when the test is over.
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cleanLast, type WithAfter } from "./clean-last.ts";

/** All folders made by this process start with this, which `leftovers.ts` looks for. */
export const temporaryPrefix = `slipway-test-${process.pid}-`;

/** A fresh folder, removed after the test. */
export function temporaryFolder(t: WithAfter, purpose = "folder"): string {
  const folder = makeFolder(purpose);
  cleanLast(t, () => removeFolder(folder));
  return folder;
}

/** A fresh folder that the caller removes with `removeFolder`. */
export function makeFolder(purpose: string): string {
  return mkdtempSync(join(realpathSync(tmpdir()), `${temporaryPrefix}${purpose}-`));
}

/** Removes a folder and all below it. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
}
