// Folders that were removed from the storage of projects, on their way out. An app that works in
// such a folder can keep it from going: until it has gone, it counts for its project.
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";
import { measure, type DiskUsage } from "./disk/disk-usage.ts";
import { removeTree } from "./remove-folder.ts";
import { appStorageName } from "./storage.ts";

type Options = {
  readonly storageDir: string;
  /** As in `Sandbox`. */
  readonly isUserOwned: boolean;
};

/** After an attempt at all that was removed. Folders of earlier versions have no project. */
export type RemovalState = {
  /** Folders that are still there. */
  readonly left: number;
  /** Projects of which a folder has gone. */
  readonly gone: readonly ProjectId[];
  /** Projects whose apps have written in a removed folder since the last attempt. */
  readonly written: readonly ProjectId[];
};

type Outcome = "gone" | "left" | "written";

const removedName = ".removed";
/** An attempt at one folder; what it has deleted stays deleted. */
const attemptMs = 10_000;
/** In one attempt at all: nobody's folders keep those of others waiting. */
const projectsAtOnce = 4;
const foldersOfProject = 4;
/** More bytes than file systems count late for what was written before. */
const grownBytesMin = 1_048_576;
const projectForm = /^(.+)\.[0-9a-f-]{36}$/;

/** The removed folders of all projects. */
export class RemovedFolders {
  readonly #options: Options;
  readonly #dir: string;
  /** What the last attempt has left of a folder, by name; null: it could not be counted. */
  readonly #left = new Map<string, DiskUsage | null>();

  constructor(options: Options) {
    this.#options = options;
    this.#dir = removedDir(options.storageDir);
  }

  /** Where to move a folder of the project: a new name. */
  async place(projectId: ProjectId): Promise<string> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    return join(this.#dir, `${projectId}.${randomUUID()}`);
  }

  /** Tries to delete all. Rejects only when it is aborted. */
  async collect(signal: AbortSignal): Promise<RemovalState> {
    const names: readonly string[] = await readdir(this.#dir).catch(() => []);
    for (const name of this.#left.keys()) if (!names.includes(name)) this.#left.delete(name);
    // Those not tried yet first: they usually go at once.
    const inTurn = Map.groupBy(
      names.toSorted((one, other) => Number(this.#left.has(one)) - Number(this.#left.has(other))),
      (name) => projectOf(name) ?? "",
    );
    const gate = new Gate({ max: projectsAtOnce, keyMax: 1, waitingMax: Number.POSITIVE_INFINITY });
    const found: { readonly projectId: ProjectId | null; readonly outcome: Outcome }[] = [];
    const attempts = [...inTurn].flatMap(([key, ofProject]) =>
      ofProject.slice(0, foldersOfProject).map(async (name) => {
        const outcome = await gate.run(() => this.#tryOne(name, signal), { key });
        found.push({ projectId: projectOf(name), outcome });
      }),
    );
    await Promise.all(attempts);
    signal.throwIfAborted();
    const projectsWith = (wanted: Outcome): ProjectId[] => [
      ...new Set(
        found.flatMap((one) =>
          one.outcome === wanted && one.projectId !== null ? [one.projectId] : [],
        ),
      ),
    ];
    const goneCount = found.filter(({ outcome }) => outcome === "gone").length;
    return {
      left: names.length - goneCount,
      gone: projectsWith("gone"),
      written: projectsWith("written"),
    };
  }

  /** `written`: it holds more than the last attempt has left, which only apps can have added. */
  async #tryOne(name: string, signal: AbortSignal): Promise<Outcome> {
    if (signal.aborted) return "left";
    const folder = join(this.#dir, name);
    const before = this.#left.get(name) ?? null;
    const now = before === null ? null : await this.#usage(folder, signal);
    const isWritten =
      before !== null &&
      now !== null &&
      (now.files > before.files || now.bytes > before.bytes + grownBytesMin);
    const { isUserOwned } = this.#options;
    // Whatever the failure says: what counts is what is left.
    await removeTree(folder, { signal, isUserOwned, timeoutMs: attemptMs }).catch(() => undefined);
    if (!existsSync(folder)) {
      this.#left.delete(name);
      return "gone";
    }
    this.#left.set(name, await this.#usage(folder, signal));
    return isWritten ? "written" : "left";
  }

  async #usage(folder: string, signal: AbortSignal): Promise<DiskUsage | null> {
    const { isUserOwned } = this.#options;
    return (await measure([folder], { isUserOwned, signal })).get(folder) ?? null;
  }
}

/**
 * The folders of a project's storage that are there: its files, its apps' own storage, and what was
 * removed of them and has not gone.
 */
export function storageFolders(storageDir: string, projectId: ProjectId): readonly string[] {
  const root = join(storageDir, projectId);
  const others = [appStorageName, removedName].flatMap((name) =>
    ownFolders(join(storageDir, name), projectId),
  );
  return existsSync(root) ? [root, ...others] : others;
}

/** A project's own entries in a folder shared with others: names that start with its id. */
export function ownFolders(dir: string, projectId: ProjectId): readonly string[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .filter((name) => name.startsWith(projectId))
    .map((name) => join(dir, name));
}

function removedDir(storageDir: string): string {
  return join(storageDir, removedName);
}

function projectOf(name: string): ProjectId | null {
  return (projectForm.exec(name)?.[1] as ProjectId | undefined) ?? null;
}
