// The folders of projects that are mounted at `/persistent-storage`, the same ones whichever driver runs replicas.
import { chownSync, mkdirSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "#lib/log.ts";
import type { Driver, ReplicaSpec } from "./driver.ts";
import { runToEnd } from "./run-to-end.ts";

/** The host folder of a replica's storage. */
export function storageDirOf({ storage }: Pick<ReplicaSpec, "storage">, storageDir: string): string {
  return join(storageDir, storage);
}

/** Creates the folder; `user` null: it belongs to the platform's user. */
export function makeOwnedFolder(dir: string, user: number | null): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  // Also of an existing one: the platform may have been killed between the two steps.
  if (user !== null) chownSync(dir, user, user);
}

/** See `Driver.collectStorage`. */
export async function collectStorage(
  { storageDir, log }: { readonly storageDir: string; readonly log: Log },
  ...[readGone, signal]: Parameters<Driver["collectStorage"]>
): Promise<void> {
  const names = await readdir(storageDir).catch(() => []);
  const gone = names.length === 0 ? [] : await readGone(names);
  for (const name of gone) {
    // Paths in there may be longer than the system allows, which rm does not mind.
    await runToEnd("rm", ["-rf", "--one-file-system", "--", join(storageDir, name)], signal).catch((error: unknown) => {
      if (signal.aborted) return;
      log.warn({ err: error, storage: name }, "the storage of a deleted project could not be removed");
    });
  }
}
