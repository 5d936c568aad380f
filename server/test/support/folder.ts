// Temporary folders for tests, removed when the test is over.
import { chmodSync, mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAlive } from "./is-alive.ts";
import { cleanLast, type WithAfter } from "./clean-last.ts";

/** The name prefix of all folders made by this process; `leftovers.ts` looks for it. */
export const temporaryPrefix = `slipway-test-${process.pid}-`;

/** A fresh folder, removed after the test. */
export function temporaryFolder(t: WithAfter, purpose = "folder"): string {
  const folder = makeFolder(purpose);
  cleanLast(t, () => removeFolder(folder));
  return folder;
}

/**
 * A fresh folder that the caller removes with `removeFolder`; by default in the system's temporary
 * folder.
 */
export function makeFolder(purpose: string, below = realpathSync(tmpdir())): string {
  return mkdtempSync(join(below, `${temporaryPrefix}${purpose}-`));
}

/** Folders made there by `makeFolder` in processes that no longer run. */
export function foldersOfTheDead(below: string): string[] {
  return readdirSync(below).flatMap((name) => {
    const [, pid] = /^slipway-test-(\d+)-/.exec(name) ?? [];
    return pid === undefined || isAlive(Number(pid)) ? [] : [join(below, name)];
  });
}

const removal = { recursive: true, force: true, maxRetries: 5, retryDelay: 50 } as const;

/**
 * Removes a folder recursively, including folders that their owner may not enter, which overlays
 * leave behind.
 */
export function removeFolder(folder: string): void {
  try {
    rmSync(folder, removal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
    openFolders(folder);
    rmSync(folder, removal);
  }
}

function openFolders(folder: string): void {
  chmodSync(folder, 0o700);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) openFolders(join(folder, entry.name));
  }
}
