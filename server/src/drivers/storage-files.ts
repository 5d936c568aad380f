// Gives the platform access to the files in the storage of projects. Apps write there at the same
// time and are not trusted: each folder of a path is opened from its parent without following a
// link, and used through its descriptor, so that an app cannot lead the platform out of the
// storage. Only regular files are read.
import { constants, type Stats } from "node:fs";
import {
  lstat,
  mkdir,
  open,
  opendir,
  readdir,
  rename,
  rm,
  unlink,
  type FileHandle,
} from "node:fs/promises";
import { join } from "node:path";
import { assert } from "#lib/assert.ts";
import { errorCode } from "#lib/error-code.ts";
import { Fault } from "#lib/fault.ts";
import { projectIdOf, type AppId, type ProjectId } from "#lib/ids.ts";
import { measure } from "./disk/disk-usage.ts";
import { RemovedFolders, storageFolders, type RemovalState } from "./removed-folders.ts";
import { makeOwnedFolder, storagesIn } from "./storage.ts";

export type StorageFilesOptions = {
  /**
   * The folder with the storage of each project, and of each app with storage of its own. Names
   * that begin with a dot are not storages of projects.
   */
  readonly storageDir: string;
  /** The user that owns the files of a project; null: the platform's own user. */
  readonly userOf: (projectId: ProjectId) => number | null;
  /** True when sandboxes belong to an ordinary user; see `Sandbox`. */
  readonly isUserOwned: boolean;
};

/**
 * A file or folder within the storage of a project. `names` has the names of the folders that lead
 * to it, and then its own name; empty: the storage itself.
 */
export type StoragePath = { readonly projectId: ProjectId; readonly names: readonly string[] };

/** An entry of a folder. Its size is 0 unless it is a file. */
export type StoredEntry = {
  readonly name: string;
  readonly isFolder: boolean;
  readonly sizeBytes: number;
  readonly modifiedAt: Date;
};

type Folder = {
  readonly handle: FileHandle;
  /** A path to the folder through its handle, for the paths of its entries. */
  readonly path: string;
};

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY, O_RDONLY, O_RDWR, O_CREAT } = constants;
/** The maximum number of names that are read from a folder; reading so many takes seconds. */
const namesMax = 1_000_000;
/** How many entries of a folder are looked up at the same time. */
const entriesAtOnce = 32;
/** A longer path is shortened in a message. */
const shownLengthMax = 200;

/** The interface of `StorageFiles`. */
export type Files = Pick<StorageFiles, keyof StorageFiles>;

/**
 * Reads and changes the files of all projects. Refusals are `Fault("not_found" | "conflict" |
 * "not_usable" | "invalid")`.
 */
export class StorageFiles {
  readonly #options: StorageFilesOptions;
  readonly #incomingDir: string;
  readonly #removed: RemovedFolders;

  constructor(options: StorageFilesOptions) {
    this.#options = options;
    this.#incomingDir = join(options.storageDir, ".incoming");
    this.#removed = new RemovedFolders(options);
  }

  /**
   * Returns the entries of a folder, ordered by name: the first `max` of those that come after the
   * name `after`. Leaves out names that are not UTF-8.
   */
  async list(
    path: StoragePath,
    { after, max }: { readonly after: string; readonly max: number },
  ): Promise<StoredEntry[]> {
    return await within(this.#root(path.projectId), path, async (folder) => {
      const names = await namesOf(folder, { after, max, path });
      const entries: StoredEntry[] = [];
      for (let start = 0; start < names.length; start += entriesAtOnce) {
        const batch = names.slice(start, start + entriesAtOnce);
        const found = await Promise.all(batch.map((name) => entryOf(folder, name)));
        entries.push(...found.filter((entry) => entry !== null));
      }
      return entries;
    });
  }

  /** Opens a regular file for reading; the caller closes it. */
  async open(path: StoragePath): Promise<{ readonly handle: FileHandle; readonly stats: Stats }> {
    const { parent, name } = splitLast(path);
    return await within(this.#root(path.projectId), parent, async (folder) => {
      try {
        const filePath = inFolder(folder, name);
        requireFile(await lstat(filePath), path);
        // An app may have replaced the file since `lstat`: opening a pipe must not wait for its
        // writer, and no terminal may become the platform's own.
        const handle = await open(filePath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        try {
          const stats = await handle.stat();
          requireFile(stats, path);
          return { handle, stats };
        } catch (error) {
          await handle.close();
          throw error;
        }
      } catch (error) {
        throw refusalOf(error, path);
      }
    });
  }

  /**
   * Opens an unfinished file, which no app sees, for writing. Creates it if it is missing; the
   * caller closes it.
   */
  async openIncoming(id: string): Promise<FileHandle> {
    await mkdir(this.#incomingDir, { recursive: true, mode: 0o700 });
    return await open(join(this.#incomingDir, id), O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
  }

  /** Gives an unfinished file its size and its owner. The file is safe on disk on return. */
  async finishIncoming(id: string, projectId: ProjectId, sizeBytes: number): Promise<void> {
    const file = await this.openIncoming(id);
    try {
      await file.truncate(sizeBytes);
      // Until now only the platform could read the file.
      await file.chmod(0o644);
      const user = this.#options.userOf(projectId);
      if (user !== null) await file.chown(user, user);
      await file.sync();
    } finally {
      await file.close();
    }
  }

  /** Whether this unfinished file exists. */
  async hasIncoming(id: string): Promise<boolean> {
    return (await lstat(join(this.#incomingDir, id)).catch(() => null)) !== null;
  }

  /**
   * Moves a finished file to its path in one step. Creates missing folders, and replaces a file
   * that has the path already. The file is safe on the disk when this resolves.
   */
  async moveIncoming(path: StoragePath, id: string): Promise<void> {
    const { parent, name } = splitLast(path);
    const user = this.#options.userOf(path.projectId);
    makeOwnedFolder(join(this.#options.storageDir, path.projectId), user);
    await within(
      this.#root(path.projectId),
      parent,
      async (folder) => {
        try {
          await rename(join(this.#incomingDir, id), inFolder(folder, name));
          await folder.handle.sync();
        } catch (error) {
          throw refusalOf(error, path);
        }
      },
      { user },
    );
  }

  /** Removes a file, a link or anything else that is not a folder. */
  async remove(path: StoragePath): Promise<void> {
    const { parent, name } = splitLast(path);
    await within(this.#root(path.projectId), parent, async (folder) => {
      try {
        if ((await lstat(inFolder(folder, name))).isDirectory())
          throw new Fault(
            "conflict",
            `${shown(path)} is a folder: write it with a / at its end to remove it with all that is in it.`,
          );
        await unlink(inFolder(folder, name));
      } catch (error) {
        throw refusalOf(error, path);
      }
    });
  }

  /**
   * Removes a folder with its content; for apps both are gone in one step. `collect` frees the
   * space later, which counts as the project's until then.
   */
  async removeFolder(path: StoragePath): Promise<void> {
    const { parent, name } = splitLast(path);
    const removedPath = await this.#removed.newPath(path.projectId);
    await within(this.#root(path.projectId), parent, async (folder) => {
      try {
        const folderPath = inFolder(folder, name);
        if (!(await lstat(folderPath)).isDirectory()) throw noFolder(path);
        await rename(folderPath, removedPath);
      } catch (error) {
        throw refusalOf(error, path);
      }
    });
  }

  /**
   * Returns the bytes that a project's storage has on disk, including removed folders that are not
   * deleted yet; null when the bytes cannot be counted in time. Takes up to 20 s for each folder.
   */
  async usedBytes(projectId: ProjectId, signal: AbortSignal): Promise<number | null> {
    const folders = storageFolders(this.#options.storageDir, projectId);
    const usages = await measure(folders, { isUserOwned: this.#options.isUserOwned, signal });
    let bytes = 0;
    for (const usage of usages.values()) {
      if (usage === null) return null;
      bytes += usage.bytes;
    }
    return bytes;
  }

  /** Returns the projects that have a storage, in any order. */
  async projects(): Promise<ProjectId[]> {
    const { projects, apps } = await storagesIn(this.#options.storageDir);
    return [...new Set([...projects, ...apps.map(projectOfApp)])] as ProjectId[];
  }

  /**
   * Deletes removed folders, for some seconds at most, and the unfinished files that `readKept`
   * does not name. Returns what has become of the removed folders.
   */
  async collect(
    readKept: (ids: readonly string[]) => Promise<readonly string[]>,
    signal: AbortSignal,
  ): Promise<RemovalState> {
    // The files are listed before the rows of their uploads are read: an upload's row is written
    // before its file, so the file of an upload in progress is kept.
    const ids = await readdir(this.#incomingDir).catch(() => []);
    const keptIds = ids.length === 0 ? [] : await readKept(ids);
    const kept = new Set(keptIds);
    for (const id of ids) {
      if (!kept.has(id)) await rm(join(this.#incomingDir, id), { force: true });
    }
    return await this.#removed.collect(signal);
  }

  #root(projectId: ProjectId): string {
    return join(this.#options.storageDir, projectId);
  }
}

/**
 * Returns the id of the project that the app's id begins with, including its `dev-` if it has one.
 * A name that is not the id of an app is returned as it is.
 */
function projectOfApp(appId: string): string {
  return projectIdOf(appId as AppId) || appId;
}

/** Splits a path into the path of its folder and its last name. */
function splitLast({ projectId, names }: StoragePath): {
  readonly parent: StoragePath;
  readonly name: string;
} {
  const name = names.at(-1);
  assert(name !== undefined, "the path names something within the storage");
  return { parent: { projectId, names: names.slice(0, -1) }, name };
}

/**
 * Calls `work` with the folder at `path`. With `creates`, missing folders are created, and belong
 * to `creates.user`.
 */
async function within<Result>(
  root: string,
  path: StoragePath,
  work: (folder: Folder) => Promise<Result>,
  creates?: { readonly user: number | null },
): Promise<Result> {
  let folder = await openFolder(root).catch((error: unknown) => {
    throw refusalOf(error, path);
  });
  try {
    for (const [index, name] of path.names.entries()) {
      const next = await enter(folder, name, creates).catch((error: unknown) => {
        const isFolder = true;
        throw refusalOf(error, { ...path, names: path.names.slice(0, index + 1) }, isFolder);
      });
      const above = folder;
      folder = next;
      await above.handle.close();
    }
    return await work(folder);
  } finally {
    await folder.handle.close();
  }
}

/** Opens the folder `name` in `above`. With `creates`, makes it first if it is missing. */
async function enter(
  above: Folder,
  name: string,
  creates?: { readonly user: number | null },
): Promise<Folder> {
  const path = inFolder(above, name);
  if (creates === undefined) return await openFolder(path);
  const isNew = await mkdir(path, 0o755).then(
    () => true,
    (error: unknown) => {
      if (errorCode(error) === "EEXIST") return false;
      throw error;
    },
  );
  const folder = await openFolder(path);
  try {
    if (isNew) await above.handle.sync();
    // An existing folder may lack its owner too: the platform may have been killed between making
    // the folder and giving it an owner.
    const { uid } = await folder.handle.stat();
    if (creates.user !== null && uid === process.getuid?.())
      await folder.handle.chown(creates.user, creates.user);
    return folder;
  } catch (error) {
    await folder.handle.close();
    throw error;
  }
}

async function openFolder(path: string): Promise<Folder> {
  const handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
  // Only Linux has paths that lead through a handle. Elsewhere the folder's own path has to do:
  // there apps are not isolated from the platform anyway.
  const isLinux = process.platform === "linux";
  return { handle, path: isLinux ? `/proc/self/fd/${handle.fd}` : path };
}

function inFolder({ path }: Folder, name: string): string {
  assert(
    name !== "" && name !== "." && name !== ".." && !/[/\0]/.test(name),
    "a name stays within its folder",
  );
  return `${path}/${name}`;
}

async function namesOf(
  { path: folderPath }: Folder,
  {
    after,
    max,
    path,
  }: { readonly after: string; readonly max: number; readonly path: StoragePath },
): Promise<readonly string[]> {
  let names: string[] = [];
  let namesRead = 0;
  for await (const { name } of await opendir(folderPath, { bufferSize: 1000 })) {
    namesRead++;
    if (namesRead > namesMax)
      throw new Fault(
        "not_usable",
        `${shown(path)} holds more than ${namesMax} files, which is too many to list.`,
      );
    if (name <= after) continue;
    names.push(name);
    // Drops names that cannot be among the first `max`, but only when `max` new names have come:
    // sorting after each name would take long.
    if (names.length >= 2 * max) names = names.toSorted(byName).slice(0, max);
  }
  return names.toSorted(byName).slice(0, max);
}

/** Orders different names by their code units, as the comparison with `after` does. */
function byName(one: string, other: string): number {
  return one < other ? -1 : 1;
}

/**
 * Returns the entry with this name. Null: it is gone, or its name is not UTF-8, so that the text of
 * the name does not lead to it.
 */
async function entryOf(folder: Folder, name: string): Promise<StoredEntry | null> {
  const stats = await lstat(inFolder(folder, name)).catch(() => null);
  if (stats === null) return null;
  return {
    name,
    isFolder: stats.isDirectory(),
    sizeBytes: stats.isFile() ? stats.size : 0,
    // Apps set this time, and some file systems store times that no `Date` can have.
    modifiedAt: Number.isNaN(stats.mtime.getTime()) ? new Date(0) : stats.mtime,
  };
}

function requireFile(stats: Stats, path: StoragePath): void {
  if (stats.isFile()) return;
  throw new Fault("not_usable", `${shown(path)} is ${kindOf(stats)}: only files can be read.`);
}

/** Describes an entry that is not a file. */
function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return "a folder";
  return stats.isSymbolicLink() ? "a link, which is not followed" : "not a file";
}

function noFolder(path: StoragePath): Fault {
  return new Fault("not_usable", `${shown(path)} is not a folder (links are not followed).`);
}

/**
 * Returns the refusal for an error of the file system; any other error as it is. `isFolder`: a
 * folder was expected at the path.
 */
function refusalOf(error: unknown, path: StoragePath, isFolder = false): unknown {
  const missing = isFolder ? `folder ${shown(path)}` : shown(path);
  switch (errorCode(error)) {
    case "ENOENT":
      return new Fault("not_found", `There is no ${missing} in the volume.`);
    case "ENOTDIR":
    case "ELOOP":
      return isFolder
        ? noFolder(path)
        : new Fault("conflict", `${shown(path)} was changed by an app meanwhile.`);
    case "EISDIR":
    case "ENOTEMPTY":
    case "EEXIST":
      return new Fault("conflict", `${shown(path)} is a folder.`);
    // A socket cannot be opened.
    case "ENXIO":
      return new Fault("not_usable", `${shown(path)} is not a file: only files can be read.`);
    case "EACCES":
    case "EPERM":
      return new Fault(
        "not_usable",
        `${shown(path)} cannot be used: an app has closed it to others (see its mode).`,
      );
    case "ENAMETOOLONG":
      return new Fault("invalid", `${shown(path)} is longer than the file system allows.`);
    case "EXDEV":
    case "EBUSY":
      return new Fault("not_usable", `${shown(path)} is on a file system of its own.`);
    default:
      return error;
  }
}

function shown({ names }: StoragePath): string {
  const text = `/${names.join("/")}`;
  const isLong = text.length > shownLengthMax;
  return JSON.stringify(isLong ? `${text.slice(0, shownLengthMax)}…` : text);
}
