// Knows the folders of projects that are mounted at `/persistent-storage`, and the folders of
// single apps. All drivers use the same folders.
import { howToChange, type Advised } from "@slipway/contract/advice.ts";
import { chownSync, mkdirSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "#lib/log.ts";
import type { Capabilities, ReplicaSpec } from "./driver.ts";
import { removeTree } from "./remove-folder.ts";

/** The path at which a sandboxed app sees the storage that the apps of its project share. */
export const sharedStoragePath = "/persistent-storage";

/** Returns the host folder of a replica's storage. */
export function storageDirOf(
  { storage }: Pick<ReplicaSpec, "storage">,
  storageDir: string,
): string {
  return join(storageDir, storage);
}

/** The name of the folder with the own storage of apps, each in a folder named by the app's id. */
export const appStorageName = ".apps";

/** Returns the host folder of an app's own storage. */
function appStorageDir(appId: string, storageDir: string): string {
  return join(storageDir, appStorageName, appId);
}

/** Returns the storage of a replica: host folders, and the paths at which it sees them. */
export function storageMounts(
  spec: Pick<ReplicaSpec, "storage" | "storagePath" | "appId">,
  storageDir: string,
): readonly { readonly from: string; readonly at: string }[] {
  const shared = { from: storageDirOf(spec, storageDir), at: sharedStoragePath };
  if (spec.storagePath === null) return [shared];
  return [shared, { from: appStorageDir(spec.appId, storageDir), at: spec.storagePath }];
}

/** Says in a sentence why an app cannot have its own storage here; null: it can, or has none. */
export function storagePathRefusal(
  { storagePaths }: Pick<Capabilities, "storagePaths">,
  { storagePath = null }: { readonly storagePath?: string | null },
  advised: Advised = "owner",
): string | null {
  if (storagePaths || storagePath === null) return null;
  return `storagePath is ${storagePath}, but apps run without a sandbox here, so that none can have storage that others do not see. Leave it out${howToChange(advised)}, or ask the operator for sandboxes (docs/guides/isolation.md).`;
}

/** Creates the folder; `user` null: it belongs to the platform's user. */
export function makeOwnedFolder(dir: string, user: number | null): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  // Also for an existing folder: the platform may have been killed between the two steps.
  if (user !== null) chownSync(dir, user, user);
}

/**
 * Returns the existing storages: the names of projects' storages, and the ids of the apps that have
 * storage of their own.
 */
export async function storagesIn(
  storageDir: string,
): Promise<{ readonly projects: readonly string[]; readonly apps: readonly string[] }> {
  const names = await readdir(storageDir).catch(() => []);
  const apps = await readdir(join(storageDir, appStorageName)).catch(() => []);
  // Folders of other kinds have names that begin with a dot.
  const projects = names.filter((name) => !name.startsWith("."));
  return { projects, apps };
}

/** Removes storage that nobody needs any more; see `Driver.collectStorage`. */
export async function collectStorage(
  {
    storageDir,
    isUserOwned = false,
    log,
  }: { readonly storageDir: string; readonly isUserOwned?: boolean; readonly log: Log },
  readGone: (storages: readonly string[]) => Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<void> {
  const { projects, apps } = await storagesIn(storageDir);
  const dirs = new Map([
    ...projects.map((id) => [id, join(storageDir, id)] as const),
    ...apps.map((id) => [id, appStorageDir(id, storageDir)] as const),
  ]);
  const gone = dirs.size === 0 ? [] : await readGone([...dirs.keys()]);
  for (const id of gone) {
    const dir = dirs.get(id);
    if (dir === undefined) continue;
    await removeTree(dir, { signal, isUserOwned }).catch((error: unknown) => {
      if (signal.aborted) return;
      log.warn(
        { err: error, storage: id },
        "the storage of a deleted app or project could not be removed",
      );
    });
  }
}
