// The folders of projects that are mounted at `/persistent-storage`, the same ones whichever driver runs replicas.
import { chownSync, mkdirSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "#lib/log.ts";
import type { Driver, ReplicaSpec } from "./driver.ts";
import { removeTree } from "./remove-folder.ts";

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
  {
    storageDir,
    isUserOwned = false,
    log,
  }: { readonly storageDir: string; readonly isUserOwned?: boolean; readonly log: Log },
  ...[readGone, signal]: Parameters<Driver["collectStorage"]>
): Promise<void> {
  const names = await readdir(storageDir).catch(() => []);
  const gone = names.length === 0 ? [] : await readGone(names);
  for (const name of gone) {
    await removeTree(join(storageDir, name), { signal, isUserOwned }).catch((error: unknown) => {
      if (signal.aborted) return;
      log.warn({ err: error, storage: name }, "the storage of a deleted project could not be removed");
    });
  }
}
