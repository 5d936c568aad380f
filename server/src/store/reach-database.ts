// Reaches the database of a data folder for work beside the platform, such as a backup. While the
// platform runs, its database answers; otherwise the embedded server is started for this work
// alone.
import { existsSync } from "node:fs";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { FolderInUse, lockFolder, type FolderLock } from "./folder-lock.ts";
import type { StoreSettings } from "./open.ts";
import { runningEmbeddedUrl, startEmbedded } from "./postgres/embedded.ts";
import { clusterPaths } from "./postgres/postgres-cluster.ts";

/** A database that answers until this object is disposed of. */
export type ReachedDatabase = AsyncDisposable & { readonly url: Secret };

type Tools = { readonly log: Log; readonly clock: Clock };

/** Throws `CannotStart` when there is no database, or when it is just starting or stopping. */
export async function reachDatabase(
  settings: StoreSettings,
  tools: Tools,
): Promise<ReachedDatabase> {
  const { dataDir, databaseUrl, paths } = settings;
  if (databaseUrl !== null) return databaseAt(databaseUrl);
  if (!existsSync(clusterPaths(paths.postgresDir).dataFolder)) {
    throw new CannotStart(
      `There is no database in the data folder ${dataDir}. Set SLIPWAY_DATA_DIR to the platform's data folder, or SLIPWAY_DATABASE_URL to the URL of its database.`,
    );
  }
  const lock = lockUnlessUsed(paths.lockFile);
  if (lock !== null) return await startAlone(settings, { ...tools, lock });
  const url = runningEmbeddedUrl(paths.postgresDir);
  if (url !== null) return databaseAt(url);
  throw new CannotStart(
    `The platform of ${dataDir} is starting or stopping, and its database does not run. Try again when the platform runs.`,
  );
}

/** A database that somebody else runs: the disposal leaves it alone. */
export function databaseAt(url: Secret): ReachedDatabase {
  return { url, [Symbol.asyncDispose]: () => Promise.resolve() };
}

function lockUnlessUsed(lockFile: string): FolderLock | null {
  try {
    return lockFolder(lockFile);
  } catch (error) {
    if (error instanceof FolderInUse) return null;
    throw error;
  }
}

/** Starts the embedded server, whose disposal stops it and releases the lock. */
export async function startAlone(
  { paths, databaseConnections: connections }: StoreSettings,
  { log, clock, lock }: Tools & { readonly lock: FolderLock },
): Promise<ReachedDatabase> {
  try {
    const folder = paths.postgresDir;
    const embedded = await startEmbedded({ folder, lock, log, connections, clock });
    return {
      url: embedded.url,
      async [Symbol.asyncDispose]() {
        await embedded.stop();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}
