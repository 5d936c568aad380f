// Restores a backup into an empty data folder and an empty database. The backup is read to its end
// before anything of it is written. A mark in the folder keeps a platform from starting on half a
// restore, and a restore that fails leaves nothing.
import { addAbortListener } from "node:events";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { errorMessage } from "#lib/error-message.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { isWritten, startTar } from "#lib/tar.ts";
import { writeFileSafely } from "#lib/write-file.ts";
import {
  migrationsOf,
  openFill,
  requireEmptyDatabase,
  type CopiedTable,
  type DatabaseFill,
} from "#store/database-copy.ts";
import { lockFolder } from "#store/folder-lock.ts";
import { unfinishedRestore, type StoreSettings } from "#store/open.ts";
import { databaseAt, startAlone, type ReachedDatabase } from "#store/reach-database.ts";
import { readArchive, type Part } from "./archive.ts";
import type { BackupAddress } from "./backup-folder.ts";
import { disarmFiles } from "./disarmed-files.ts";
import { ownLinks } from "./own-links.ts";
import {
  keptFiles,
  notOurs,
  partNames,
  readManifest,
  readShortPart,
  type Manifest,
} from "./backup-content.ts";

export type RestoreOptions = {
  readonly settings: StoreSettings;
  readonly from: BackupAddress;
  /** Private keys (age identities), one of which opens the backup. */
  readonly privateKeys: readonly string[];
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
};

/** Reads the whole backup and writes nothing. Throws `CannotStart` when it cannot be restored. */
export async function checkBackup(options: Omit<RestoreOptions, "settings">): Promise<Manifest> {
  let manifest: Manifest | undefined;
  await readParts(options, {
    onManifest: (read) => {
      // Throws when this version does not have the migrations of the database.
      migrationsOf(read.database);
      manifest = read;
      return Promise.resolve();
    },
    onPart: () => Promise.resolve(),
  });
  if (manifest === undefined) throw new Error("the first part of a backup is its manifest");
  return manifest;
}

/** Restores a backup; the platform can be started afterwards. Throws `CannotStart`. */
export async function restore(options: RestoreOptions): Promise<Manifest> {
  const { settings, log } = options;
  const { dataDir, databaseUrl } = settings;
  requireEmptyFolder(dataDir);
  const lock = lockFolder(settings.paths.lockFile);
  try {
    if (databaseUrl !== null) await requireEmptyDatabase(databaseUrl, log);
    const manifest = await checkBackup(options);
    await fillFolder(options, await openTarget(options, lock));
    rmSync(unfinishedRestore(dataDir));
    return manifest;
  } catch (error) {
    emptyFolder(dataDir);
    throw error;
  } finally {
    lock.release();
  }
}

function requireEmptyFolder(dataDir: string): void {
  const names = existsSync(dataDir) ? readdirSync(dataDir) : [];
  // If the data folder is the root of a disk, it has the folder `lost+found`.
  const other = names.find((name) => name !== "lost+found");
  if (other === undefined) return;
  throw new CannotStart(
    `The data folder ${dataDir} is not empty: it has ${other}. Restore into an empty folder (SLIPWAY_DATA_DIR).`,
  );
}

function emptyFolder(dataDir: string): void {
  for (const name of readdirSync(dataDir))
    if (name !== "lost+found") rmSync(join(dataDir, name), { recursive: true, force: true });
}

/** Marks the folder, and starts its database unless the settings name one. */
async function openTarget(
  { settings, log, clock }: RestoreOptions,
  lock: ReturnType<typeof lockFolder>,
): Promise<ReachedDatabase> {
  writeFileSafely(unfinishedRestore(settings.dataDir), "");
  // `restore` releases the lock, so the database must not.
  if (settings.databaseUrl === null)
    return await startAlone(settings, { log, clock, lock: { ...lock, release: () => undefined } });
  return databaseAt(settings.databaseUrl);
}

async function fillFolder(options: RestoreOptions, target: ReachedDatabase): Promise<void> {
  await using database = target;
  const { settings, log } = options;
  let fill: DatabaseFill | undefined;
  try {
    await readParts(options, {
      onManifest: async (manifest) => {
        fill = await openFill(database.url, manifest.database, log);
      },
      onPart: async (part, table) => {
        if (table !== undefined) await fill?.load(table, Readable.from(part.content));
        else await restorePart(part, { settings, signal: options.signal });
      },
    });
    await fill?.commit();
  } finally {
    await fill?.[Symbol.asyncDispose]();
  }
}

/** The maximum length of the file of secret keys. No platform has had so many keys. */
const secretKeyBytesMax = 65_536;

async function restorePart(
  part: Part,
  { settings, signal }: Pick<RestoreOptions, "settings" | "signal">,
): Promise<void> {
  if (part.name === partNames.secretKey)
    writeFileSafely(settings.paths.secretKeyFile, await readShortPart(part, secretKeyBytesMax));
  else await restoreFiles(part.content, settings.dataDir, signal);
}

/**
 * Unpacks the files into a separate folder, since a forged backup may name any file, and then moves
 * only `keptFiles` into the data folder.
 */
async function restoreFiles(
  content: Part["content"],
  dataDir: string,
  signal: AbortSignal,
): Promise<void> {
  const unpacked = join(dataDir, ".restoring");
  mkdirSync(unpacked, { mode: 0o700 });
  await unpack(content, unpacked, signal);
  const [link] = ownLinks(unpacked);
  if (link !== undefined)
    throw new CannotStart(`${notOurs} Its ${link} is a symbolic link, which leads elsewhere.`);
  await disarmFiles(unpacked, signal);
  for (const name of keptFiles)
    if (existsSync(join(unpacked, name))) renameSync(join(unpacked, name), join(dataDir, name));
  rmSync(unpacked, { recursive: true });
}

async function unpack(
  content: Part["content"],
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  await using tar = await startTar(["-x", "-p", "--numeric-owner"], folder, signal);
  let isReading = true;
  // Tar ends before the last zeros of its archive. From then on, the rest is read and dropped, so
  // that the backup is read to its end.
  for await (const chunk of content) isReading &&= await isWritten(tar.input, chunk);
  tar.input.end();
  await tar.end.catch((error: unknown) => {
    signal.throwIfAborted();
    const why = errorMessage(error);
    throw new CannotStart(`The files could not be unpacked: ${why}.`, { cause: error });
  });
}

type Takers = {
  readonly onManifest: (manifest: Manifest) => Promise<void>;
  /** `table`: the table whose rows the part has; undefined: it has the secret keys or the files. */
  readonly onPart: (part: Part, table: CopiedTable | undefined) => Promise<void>;
};

async function readParts(
  { from, privateKeys, signal }: Omit<RestoreOptions, "settings">,
  { onManifest, onPart }: Takers,
): Promise<void> {
  signal.throwIfAborted();
  const file = await from.folder.read(from.name);
  using _listener = addAbortListener(signal, () => file.destroy(signal.reason as Error));
  let manifest: Manifest | undefined;
  const read = new Set<string>();
  for await (const part of readArchive(file, privateKeys)) {
    // A second tar of files could write through a link that the first tar has made.
    if (read.has(part.name)) throw new CannotStart(`${notOurs} It has ${part.name} twice.`);
    read.add(part.name);
    if (manifest === undefined) {
      manifest = await readManifest(part);
      await onManifest(manifest);
    } else {
      await onPart(part, tableOf(part, manifest));
    }
  }
}

/**
 * The table whose rows the part has; undefined: the part has the secret keys or the files. Throws
 * `CannotStart` for a part that no backup holds.
 */
function tableOf({ name }: Part, { database }: Manifest): CopiedTable | undefined {
  const table = database.tables.find((one) => name === `${partNames.tables}${one.name}`);
  if (table !== undefined || name === partNames.secretKey || name === partNames.files) return table;
  throw new CannotStart(`${notOurs} It has ${JSON.stringify(name)}, which no backup holds.`);
}
