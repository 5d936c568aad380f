// Folders that several builds share, each under a key: virtual environments, and the tools that
// fill them. The cache creates a folder at a unique path and then publishes it atomically with a
// small file. A kill half-way, or two builders at once, leaves at worst an unreferenced folder,
// which `collect` removes.
import { addAbortListener } from "node:events";
import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "#lib/clock.ts";
import { removeFolder } from "#drivers/remove-folder.ts";

/** The content of the small file of a key. */
type Pointer = {
  readonly folder: string;
  /** When the folder was filled, in milliseconds since the epoch. */
  readonly madeAt: number;
};

/** The cache of one kind of shared folder. */
export class BuildCache {
  readonly #dir: string;
  readonly #clock: Clock;
  /**
   * Creations in progress in this process, by key: a second build waits instead of repeating the
   * work.
   */
  readonly #creations = new Map<string, Promise<unknown>>();
  /** Folders that are being filled. */
  readonly #unfinished = new Set<string>();
  /** Folders handed out since the latest `collect` began. */
  readonly #handedOut = new Set<string>();
  /** Folders that are being removed. */
  readonly #removing = new Set<string>();

  constructor(options: { readonly dir: string; readonly clock: Clock }) {
    this.#dir = options.dir;
    this.#clock = options.clock;
  }

  /**
   * Returns the folder of a key. When there is none, or it is older than `ageMsMax`, `make` fills a
   * new one. Rejects when `make` does, or when `signal` is aborted.
   */
  async get(request: {
    readonly key: string;
    readonly ageMsMax: number;
    readonly signal: AbortSignal;
    readonly make: (folder: string) => Promise<void>;
  }): Promise<{ readonly folder: string; readonly isNew: boolean }> {
    for (;;) {
      request.signal.throwIfAborted();
      const known = await this.#find(request.key, request.ageMsMax);
      if (known !== null) return { folder: known, isNew: false };
      const running = this.#creations.get(request.key);
      if (running === undefined) break;
      // Looks for the folder again afterwards, since the other creation may have failed.
      await settledOrAborted(running, request.signal);
    }
    const making = this.#make(request.key, request.make);
    this.#creations.set(request.key, making);
    try {
      return { folder: await making, isNew: true };
    } finally {
      this.#creations.delete(request.key);
    }
  }

  /**
   * Removes folders to which no key leads. Removes folders with a key, too, if they are unused (see
   * `isUsed`) and not among the `keptMax` most recently used.
   */
  async collect(isUsed: (folder: string) => boolean, keptMax: number): Promise<void> {
    this.#handedOut.clear();
    const names = await readdir(this.#dir).catch(() => []);
    const pointers: { file: string; folder: string; usedAt: number }[] = [];
    for (const name of names.filter((candidate) => candidate.endsWith(".json"))) {
      const file = join(this.#dir, name);
      const pointer = await readPointer(file);
      const stats = await stat(file).catch(() => null);
      if (pointer !== null && stats !== null)
        pointers.push({ file, folder: pointer.folder, usedAt: stats.mtimeMs });
    }
    pointers.sort((a, b) => b.usedAt - a.usedAt);
    const keptFolders = new Set<string>();
    for (const [rank, { file, folder }] of pointers.entries()) {
      if (rank < keptMax || isUsed(folder) || this.#handedOut.has(folder)) keptFolders.add(folder);
      else await rm(file, { force: true });
    }
    for (const name of names.filter((candidate) => !candidate.endsWith(".json"))) {
      const folder = join(this.#dir, name);
      // While a pointer is being written, its temporary file has the name of the folder and `.tmp`.
      const isUnfinished = this.#unfinished.has(folder.replace(/\.tmp$/, ""));
      const isKept = keptFolders.has(folder) || isUsed(folder) || this.#handedOut.has(folder);
      if (isUnfinished || isKept) continue;
      this.#removing.add(folder);
      await removeFolder(folder);
      this.#removing.delete(folder);
    }
  }

  async #find(key: string, ageMsMax: number): Promise<string | null> {
    const file = join(this.#dir, `${key}.json`);
    const pointer = await readPointer(file);
    if (pointer === null || this.#clock.now() - pointer.madeAt > ageMsMax) return null;
    if ((await stat(pointer.folder).catch(() => null))?.isDirectory() !== true) return null;
    const now = new Date(this.#clock.now());
    // Records the last use, for `collect`.
    await utimes(file, now, now).catch(() => undefined);
    // Nothing is awaited between this check and `#handedOut`: from then on `collect` keeps the
    // folder.
    if (this.#removing.has(pointer.folder)) return null;
    this.#handedOut.add(pointer.folder);
    return pointer.folder;
  }

  async #make(key: string, make: (folder: string) => Promise<void>): Promise<string> {
    const folder = join(this.#dir, `${key}-${randomBytes(4).toString("hex")}`);
    this.#unfinished.add(folder);
    try {
      await mkdir(this.#dir, { recursive: true });
      await make(folder);
      const file = join(this.#dir, `${key}.json`);
      const pointer: Pointer = { folder, madeAt: this.#clock.now() };
      await writeFile(`${folder}.tmp`, JSON.stringify(pointer));
      await rename(`${folder}.tmp`, file);
      return folder;
    } catch (error) {
      await removeFolder(folder);
      throw error;
    } finally {
      this.#unfinished.delete(folder);
    }
  }
}

async function readPointer(file: string): Promise<Pointer | null> {
  try {
    const pointer = JSON.parse(await readFile(file, "utf8")) as Partial<Pointer>;
    if (typeof pointer.folder !== "string" || typeof pointer.madeAt !== "number") return null;
    return { folder: pointer.folder, madeAt: pointer.madeAt };
  } catch {
    return null;
  }
}

/** Resolves when the promise settles, in whatever way, or the signal aborts. */
async function settledOrAborted(promise: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<void>();
  using _wake = addAbortListener(signal, () => aborted.resolve());
  await Promise.race([promise.catch(() => undefined), aborted.promise]);
}
