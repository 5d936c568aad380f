// Opens the database: the lock on the data folder, the embedded server unless a URL is given, the
// lock on the database, migrations, the platform's clock in statements, the sealing key,
// notifications.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import type { SteadyClock } from "#lib/steady-clock.ts";
import { DatabaseCounts } from "./database-counts.ts";
import { DatabaseLock } from "./database-lock.ts";
import { openDatabase } from "./database.ts";
import { lockFolder, type FolderLock } from "./folder-lock.ts";
import type { Foundation } from "./foundation.ts";
import { readInstallationId } from "./installation-store.ts";
import { migrate } from "./migrate.ts";
import { Notifications } from "./notify.ts";
import { startEmbedded } from "./postgres/embedded.ts";
import { resealOld, type SealedColumn } from "./sealed-store.ts";
import { openSealer } from "./secret-key.ts";
import { watchClock } from "./watch-clock.ts";

export type StoreSettings = {
  readonly dataDir: string;
  /** Null: the embedded server runs in the data folder. */
  readonly databaseUrl: Secret | null;
  /** The maximum number of connections that the platform's pool opens. */
  readonly databaseConnections: number;
  /** Null: the key is kept in a file of the data folder. */
  readonly secretKeys: readonly Secret[] | null;
  readonly paths: {
    readonly lockFile: string;
    readonly postgresDir: string;
    readonly secretKeyFile: string;
  };
};

/**
 * The foundation, the database counts for metrics, and a promise that resolves when another
 * platform has taken the database.
 */
export type OpenedStore = Foundation & {
  readonly counts: DatabaseCounts;
  /** Resolves with a message for the operator; see `DatabaseLock.lost`. */
  readonly lost: Promise<string>;
};

/** The file that is in a data folder while a backup is restored into it. */
export function unfinishedRestore(dataDir: string): string {
  return join(dataDir, "restore.unfinished");
}

/** Opens the store, which closes with the platform. Throws `CannotStart` with what to do. */
export async function openStore(
  settings: StoreSettings,
  parts: {
    readonly log: Log;
    readonly lifecycle: Lifecycle;
    readonly clock: SteadyClock;
    readonly sealedColumns: readonly SealedColumn[];
  },
): Promise<OpenedStore> {
  const { dataDir, databaseConnections: connections, secretKeys, paths } = settings;
  const { log, lifecycle, clock, sealedColumns } = parts;
  const lock = lockFolder(paths.lockFile);
  lifecycle.onClose("data folder", () => lock.release());
  if (existsSync(unfinishedRestore(dataDir))) {
    throw new CannotStart(
      `A restore into the data folder ${dataDir} has not ended. Empty the folder, and the database if it is one of your own, and restore again.`,
    );
  }
  const url = settings.databaseUrl ?? (await startEmbeddedServer(settings, parts, lock));
  const counts = new DatabaseCounts();
  const db = await openDatabase({ url, connections, counts, log, clock });
  lifecycle.onClose("database", () => db.destroy());
  const { instanceId } = lock;
  const databaseLock = new DatabaseLock({ url, instanceId, dataDir, log, clock });
  await databaseLock.start();
  lifecycle.onClose("lock on the database", () => databaseLock.stop());
  await migrate({ url, log });
  const installationId = await readInstallationId(db, lock);
  lock.keepInstallation(installationId);
  await databaseLock.announce(installationId);
  await watchClock(clock, { db, lifecycle, log });
  const sealer = await openSealer(db, {
    secretKeys,
    secretKeyFile: paths.secretKeyFile,
    sealedColumns,
  });
  const resealed = await resealOld(db, sealer, sealedColumns);
  if (resealed > 0) log.info({ resealed }, "encrypted secrets with the current secret key");
  const notifications = new Notifications({ url, log, clock });
  await notifications.start();
  lifecycle.onClose("notifications", () => notifications.stop());
  return {
    db,
    notifications,
    sealer,
    installationId,
    instanceId,
    lifecycle,
    log,
    clock,
    counts,
    lost: databaseLock.lost,
  };
}

async function startEmbeddedServer(
  { paths, databaseConnections: connections }: StoreSettings,
  { log, lifecycle, clock }: Pick<Foundation, "log" | "lifecycle" | "clock">,
  lock: FolderLock,
): Promise<Secret> {
  const embedded = await startEmbedded({
    folder: paths.postgresDir,
    lock,
    log,
    connections,
    clock,
  });
  lifecycle.onClose("embedded database", () => embedded.stop());
  return embedded.url;
}
