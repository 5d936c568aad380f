// Deletes folders that were removed from the storage of projects. An app that still writes in such
// a folder can prevent its deletion; until the folder is gone, its size counts for the project.
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
  /** True when sandboxes belong to an ordinary user; see `Sandbox`. */
  readonly isUserOwned: boolean;
};

/** The result of one `collect`. Folders of earlier versions belong to no project. */
export type RemovalState = {
  /** The number of folders that still exist. */
  readonly left: number;
  /** The projects of folders that were deleted completely. */
  readonly gone: readonly ProjectId[];
  /** The projects whose apps have written in a removed folder since the last attempt. */
  readonly written: readonly ProjectId[];
};

/**
 * The result for one folder. `left`: it still exists. `written`: it still exists, and apps have
 * written in it since the last attempt.
 */
type Outcome = "gone" | "left" | "written";

const removedName = ".removed";
/** The time for one folder; the next attempt continues with the files that are left. */
const attemptMs = 10_000;
/** One `collect` deletes folders of so many projects at once, so that no project waits for long. */
const projectsAtOnce = 4;
/** One `collect` tries so many folders of each project. */
const foldersPerProject = 4;
/** A file system may count earlier writes late, but not as many bytes as this. */
const grownBytesMin = 1_048_576;
/** The names that `newPath` gives; folders of earlier versions have others. */
const projectForm = /^(.+)\.[0-9a-f-]{36}$/;

/** The removed folders of all projects. */
export class RemovedFolders {
  readonly #options: Options;
  readonly #dir: string;
  /** The size of each folder after the last attempt, by name; null: it could not be measured. */
  readonly #usageLeft = new Map<string, DiskUsage | null>();

  constructor(options: Options) {
    this.#options = options;
    this.#dir = removedDir(options.storageDir);
  }

  /** A new path, to which a removed folder of the project is to be moved. */
  async newPath(projectId: ProjectId): Promise<string> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    return join(this.#dir, `${projectId}.${randomUUID()}`);
  }

  /** Tries to delete the removed folders. Rejects only when it is aborted. */
  async collect(signal: AbortSignal): Promise<RemovalState> {
    const names: readonly string[] = await readdir(this.#dir).catch(() => []);
    for (const name of this.#usageLeft.keys())
      if (!names.includes(name)) this.#usageLeft.delete(name);
    // `#chosen` limits how many wait.
    const gate = new Gate({ max: projectsAtOnce, keyMax: 1, waitingMax: Number.POSITIVE_INFINITY });
    const attempts = this.#chosen(names).map(async (name) => {
      const projectId = projectOf(name);
      // All folders of earlier versions share a key: they belong to no project.
      const key = projectId ?? "";
      const outcome = await gate.run(() => this.#deleteFolder(name, signal), { key });
      return { projectId, outcome };
    });
    const results = await Promise.all(attempts);
    signal.throwIfAborted();
    const projectsWith = (outcome: Outcome): ProjectId[] => {
      const matching = results.filter((result) => result.outcome === outcome);
      const projects = matching.map(({ projectId }) => projectId);
      return [...new Set(projects.filter((projectId) => projectId !== null))];
    };
    const goneCount = results.filter(({ outcome }) => outcome === "gone").length;
    return {
      left: names.length - goneCount,
      gone: projectsWith("gone"),
      written: projectsWith("written"),
    };
  }

  /** The folders to try now: a few of each project, first those that were not tried yet. */
  #chosen(names: readonly string[]): readonly string[] {
    const isTried = (name: string): boolean => this.#usageLeft.has(name);
    const newFirst = names.toSorted((one, other) => Number(isTried(one)) - Number(isTried(other)));
    const byProject = Map.groupBy(newFirst, (name) => projectOf(name) ?? "");
    return [...byProject.values()].flatMap((folders) => folders.slice(0, foldersPerProject));
  }

  /**
   * Tries to delete one folder. When it is larger than after the last attempt, apps have written in
   * it since.
   */
  async #deleteFolder(name: string, signal: AbortSignal): Promise<Outcome> {
    if (signal.aborted) return "left";
    const folder = join(this.#dir, name);
    const before = this.#usageLeft.get(name) ?? null;
    const now = before === null ? null : await this.#usage(folder, signal);
    const isWritten = before !== null && now !== null && hasGrown(before, now);
    const { isUserOwned } = this.#options;
    // A failure needs no report: the folder is still there, and is tried again.
    await removeTree(folder, { signal, isUserOwned, timeoutMs: attemptMs }).catch(() => undefined);
    if (!existsSync(folder)) {
      this.#usageLeft.delete(name);
      return "gone";
    }
    this.#usageLeft.set(name, await this.#usage(folder, signal));
    return isWritten ? "written" : "left";
  }

  async #usage(folder: string, signal: AbortSignal): Promise<DiskUsage | null> {
    const { isUserOwned } = this.#options;
    return (await measure([folder], { isUserOwned, signal })).get(folder) ?? null;
  }
}

/**
 * The existing folders of a project's storage: its files, its apps' own storage, and removed
 * folders that are not yet deleted.
 */
export function storageFolders(storageDir: string, projectId: ProjectId): readonly string[] {
  const root = join(storageDir, projectId);
  const others = [appStorageName, removedName].flatMap((name) =>
    ownFolders(join(storageDir, name), projectId),
  );
  return existsSync(root) ? [root, ...others] : others;
}

/** The paths in `dir` that belong to the project: those whose names start with its id. */
export function ownFolders(dir: string, projectId: ProjectId): readonly string[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .filter((name) => name.startsWith(projectId))
    .map((name) => join(dir, name));
}

function hasGrown(before: DiskUsage, now: DiskUsage): boolean {
  return now.files > before.files || now.bytes > before.bytes + grownBytesMin;
}

function removedDir(storageDir: string): string {
  return join(storageDir, removedName);
}

function projectOf(name: string): ProjectId | null {
  return (projectForm.exec(name)?.[1] as ProjectId | undefined) ?? null;
}
