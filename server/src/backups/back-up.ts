// Makes a backup while the platform runs: the database in one snapshot, then the secret keys, then
// the files, so that every release of the snapshot has its files. Rows that are written after the
// snapshot are not in the backup. The backup is streamed: no copy of it is kept in memory or on the
// way on this machine's disk.
import { addAbortListener } from "node:events";
import { existsSync, readlinkSync, statSync } from "node:fs";
import { join } from "node:path";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { startTar } from "#lib/tar.ts";
import { openSnapshot } from "#store/database-copy.ts";
import type { StoreSettings } from "#store/open.ts";
import { reachDatabase } from "#store/reach-database.ts";
import { keptSecretKeys } from "#store/secret-key.ts";
import { writeArchive } from "./archive.ts";
import type { BackupAddress } from "./backup-folder.ts";
import { contentForm, keptFiles, manifestContent, partNames } from "./backup-content.ts";
import { ownLinks } from "./own-links.ts";

export type BackupOptions = {
  readonly settings: StoreSettings;
  readonly to: BackupAddress;
  /** Who may open the backup: age recipients. At least one. */
  readonly publicKeys: readonly string[];
  readonly version: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
};

/** A backup that was made. */
export type MadeBackup = {
  readonly address: string;
  readonly bytes: number;
  /** The time right before the snapshot, which has everything until then; ISO text. */
  readonly at: string;
};

/** Makes one backup. Throws `CannotStart` with what to do; nothing is left behind then. */
export async function backUp(options: BackupOptions): Promise<MadeBackup> {
  const { settings, to, publicKeys, version, log, clock, signal } = options;
  if (!existsSync(settings.dataDir)) {
    throw new CannotStart(
      `The data folder ${settings.dataDir} does not exist. Set SLIPWAY_DATA_DIR to the platform's.`,
    );
  }
  requireNoLostLinks(settings.dataDir);
  await to.folder.check(to.name);
  await using database = await reachDatabase(settings, { log, clock });
  const at = new Date(clock.now()).toISOString();
  await using snapshot = await openSnapshot(database.url, log);
  const { content } = snapshot;
  const bytes = await to.folder.write(to.name, async (file) => {
    using _listener = addAbortListener(signal, () => file.destroy(asError(signal.reason)));
    await writeArchive(file, publicKeys, async (add) => {
      const manifest = { form: contentForm, version, at, database: content } as const;
      await add(partNames.manifest, manifestContent(manifest));
      for (const table of content.tables)
        await add(`${partNames.tables}${table.name}`, snapshot.rows(table));
      const keys = keptSecretKeys(settings);
      if (keys !== null) await add(partNames.secretKey, textContent(`${keys.join(",")}\n`));
      await add(partNames.files, packedFiles(settings.dataDir, signal));
    });
  });
  return { address: to.folder.addressOf(to.name), bytes, at };
}

async function* textContent(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text);
}

/**
 * Refuses links whose files would not be in the backup. What `keptFiles` names may be a link to a
 * folder, such as one on a larger disk: its files are packed.
 */
function requireNoLostLinks(dataDir: string): void {
  const lost = ownLinks(dataDir).find(
    (name) => !keptFiles.includes(name) || !isFolder(join(dataDir, name)),
  );
  if (lost === undefined) return;
  const path = join(dataDir, lost);
  throw new CannotStart(
    `${path} is a symbolic link to ${readlinkSync(path)}, whose files would not be in the backup. A backup follows only links of whole folders, such as storage, that lead to a folder. If a disk is missing, mount it; else put the files themselves there, or mount their folder there (mount --bind).`,
  );
}

function isFolder(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory();
}

async function* packedFiles(dataDir: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  const there = keptFiles.filter((name) => existsSync(join(dataDir, name)));
  // With `/.`, tar packs the folder that a link leads to. Without, it would pack the link.
  const links = ownLinks(dataDir);
  const names = there.map((name) => (links.includes(name) ? `${name}/.` : name));
  // With an empty list of further files, tar makes an empty archive where there is no name.
  const options = ["-c", "--numeric-owner", "--files-from=/dev/null", ...names];
  // Apps and builds may change the files meanwhile.
  await using tar = await startTar(options, dataDir, signal, { mayChange: true });
  yield* tar.output as AsyncIterable<Buffer>;
  await tar.end;
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new CannotStart("The backup was ended.");
}
