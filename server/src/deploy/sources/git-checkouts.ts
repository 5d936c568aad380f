// Keeps the git folder of an app until its next build, which then transfers only the changes. The
// kept folders are bounded in number and size. A folder belongs to one build at a time: the build
// takes it away, and brings it back when it has its files.
import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { folderBytes } from "#deploy/folder-size.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { AppId } from "#lib/ids.ts";

/** The folder of the kept checkouts, next to the builds' folders. */
export const checkoutsName = "checkouts";
/** The maximum number of kept checkouts, one for each app. */
const checkoutsMax = 20;
/**
 * How large a kept checkout may be, as a share of a repository's maximum size: the next fetch into
 * it must fit too.
 */
const keptShare = 0.1;

/** Moves the checkout of the app, if one was kept, to `gitDir`, which does not exist yet. */
export async function takeCheckout(
  sourcesDir: string,
  appId: AppId,
  gitDir: string,
): Promise<void> {
  await rename(join(sourcesDir, checkoutsName, appId), gitDir).catch(() => undefined);
}

/**
 * Keeps `gitDir` for the app, without keys and settings, unless it is large. `bytesMax` is the
 * maximum size of a repository.
 */
export async function keepCheckout(checkout: {
  readonly sourcesDir: string;
  readonly appId: AppId;
  readonly gitDir: string;
  readonly bytesMax: number;
}): Promise<void> {
  const { sourcesDir, appId, gitDir } = checkout;
  // The index lists the files of this build, which the next build does not have.
  for (const name of ["ssh-key", "global.config", "config", "index"])
    await rm(join(gitDir, name), { force: true });
  const keptMax = checkout.bytesMax * keptShare;
  if ((await folderBytes(gitDir, keptMax)) > keptMax) return;
  const keptDir = join(sourcesDir, checkoutsName, appId);
  await mkdir(join(sourcesDir, checkoutsName), { recursive: true, mode: 0o700 });
  await removeFolder(keptDir);
  await rename(gitDir, keptDir);
}

/**
 * Removes the checkouts of apps that do not exist, and keeps only the newest `checkoutsMax` of the
 * others.
 */
export async function collectCheckouts(
  sourcesDir: string,
  readApps: (appIds: readonly string[]) => Promise<readonly AppId[]>,
): Promise<void> {
  const folder = join(sourcesDir, checkoutsName);
  const names = await readdir(folder).catch(() => []);
  if (names.length === 0) return;
  const apps = new Set<string>(await readApps(names));
  // A folder that is gone meanwhile counts as the oldest.
  const withTimes = names.map(async (name) => ({
    name,
    at: (await stat(join(folder, name)).catch(() => null))?.mtimeMs ?? 0,
  }));
  const newest = (await Promise.all(withTimes))
    .filter(({ name }) => apps.has(name))
    .toSorted((a, b) => b.at - a.at);
  const keptNames = new Set(newest.slice(0, checkoutsMax).map(({ name }) => name));
  for (const name of names) {
    if (!keptNames.has(name)) await removeFolder(join(folder, name));
  }
}
