// The volumes of projects: lists and removes their files, makes addresses to download from, and
// sets their sizes. Every project has one volume.
import { createHash, randomBytes } from "node:crypto";
import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { lockProject } from "#accounts/project-store.ts";
import { record, type AuditEntry, type By } from "#audit/record.ts";
import type { Files, StoredEntry } from "#drivers/storage-files.ts";
import { sizeText } from "#lib/disk-full.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import type { Db, Tx } from "#store/database.ts";
import { requireFiles } from "./require-files.ts";
import { pathText, readFilePath, readInnerPath, readVolumePath } from "./volume-path.ts";
import { gbBytes, type VolumeSpace } from "./volume-space.ts";
import * as store from "./volume-store.ts";

export type VolumesOptions = {
  readonly db: Db;
  /** Null: only apps reach the files of volumes. */
  readonly files: Pick<Files, "list" | "open" | "remove" | "removeFolder"> | null;
  readonly space: VolumeSpace;
  /** Called when a folder was removed, whose space is to be freed. */
  readonly onRemoved: () => void;
};

/** The only volume of a project. */
export const volumeId = "default";

/**
 * The size and use of a volume. `sizeGb` null: only the disk limits it. `usedBytes` null: its files
 * cannot be counted.
 */
export type VolumeState = { readonly sizeGb: number | null; readonly usedBytes: number | null };

/** The file that a download address stands for. */
export type DownloadedFile = { readonly projectId: ProjectId; readonly filePath: string };

/** An open file that is to be sent; the receiver closes it. */
export type OpenedFile = {
  readonly name: string;
  readonly handle: FileHandle;
  readonly stats: Stats;
};

/**
 * The use cases of volumes, except for uploads. They refuse the paths that `StorageFiles` and
 * `readVolumePath` refuse.
 */
export class Volumes {
  readonly #options: VolumesOptions;

  constructor(options: VolumesOptions) {
    this.#options = options;
  }

  /** The size and use of a volume. Takes up to 20 s when the files have to be counted. */
  async state(projectId: ProjectId): Promise<VolumeState> {
    const { space } = this.#options;
    return { sizeGb: space.sizeGb(projectId), usedBytes: await space.usedBytes(projectId) };
  }

  /**
   * The entries of a folder in the order of their names: at most `max` of those after the name
   * `after`. A volume that no app has used is empty.
   */
  async list(
    projectId: ProjectId,
    { dir, ...page }: { readonly dir: string; readonly after: string; readonly max: number },
  ): Promise<readonly StoredEntry[]> {
    const { names } = readVolumePath("dir", dir);
    const files = requireFiles(this.#options.files);
    try {
      return await files.list({ projectId, names }, page);
    } catch (error) {
      if (names.length === 0 && error instanceof Fault && error.code === "not_found") return [];
      throw error;
    }
  }

  /** Returns the key of an address to download a file from. Records that it was made. */
  async beginDownload(projectId: ProjectId, filePath: string, by: By): Promise<Secret> {
    const { db, files } = this.#options;
    const path = readFilePath("file_path", filePath);
    // Opening the file shows that it exists and may be sent.
    const { handle } = await requireFiles(files).open({ projectId, names: path.names });
    await handle.close();
    const key = new Secret(randomBytes(32).toString("base64url"));
    const download = { projectId, filePath: pathText(path), keyHash: hashOfKey(key.reveal()) };
    await db.transaction().execute(async (tx) => {
      await store.insertDownload(tx, download);
      await recordOfVolume(tx, {
        projectId,
        action: "volume.download",
        by,
        filePath: download.filePath,
      });
    });
    return key;
  }

  /**
   * The file of an address. Throws `Fault("not_found")` when the address is unknown or no longer
   * works.
   */
  async findDownload(key: string): Promise<DownloadedFile> {
    const download = await store.downloadByKey(this.#options.db, hashOfKey(key));
    if (download !== undefined) return download;
    throw new Fault("not_found", "There is no download with this address, or its time is over.");
  }

  /** Opens the file; the caller closes it. Throws `Fault("not_found")` when it is gone. */
  async openDownload({ projectId, filePath }: DownloadedFile): Promise<OpenedFile> {
    const names = filePath.split("/");
    const files = requireFiles(this.#options.files);
    return { name: names.at(-1) ?? "", ...(await files.open({ projectId, names })) };
  }

  /** Removes a file, or a folder whose path ends with a slash. */
  async remove(projectId: ProjectId, filePath: string, by: By): Promise<void> {
    const { db, space, onRemoved } = this.#options;
    const files = requireFiles(this.#options.files);
    const path = readInnerPath("file_path", filePath);
    await db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId);
      await recordOfVolume(tx, {
        projectId,
        action: "volume.remove",
        by,
        filePath: pathText(path),
      });
      // The removal comes last, since no rollback undoes it.
      const target = { projectId, names: path.names };
      if (path.isFolder) await files.removeFolder(target);
      else await files.remove(target);
    });
    space.noteRemoved(projectId);
    if (path.isFolder) onRemoved();
  }

  /**
   * Sets the size. Throws `Fault("invalid" | "conflict" | "not_usable")`. Takes up to 20 s, since
   * the files are counted.
   */
  async resize(projectId: ProjectId, sizeGb: number, by: By): Promise<VolumeState> {
    const { db, space } = this.#options;
    const max = space.sizeGbMax;
    if (max !== null && sizeGb > max) {
      throw new Fault(
        "invalid",
        `newSizeGb is ${sizeGb}, but must be at most ${max} (SLIPWAY_STORAGE_LIMIT_GB).`,
      );
    }
    const usedBytes = await space.usedBytes(projectId, { isNew: true });
    if (usedBytes === null)
      throw new Fault(
        "not_usable",
        "The volume holds so many files that they cannot be counted: remove some first.",
      );
    if (usedBytes > sizeGb * gbBytes) {
      throw new Fault(
        "conflict",
        `The volume holds ${sizeText(usedBytes)}, more than ${sizeGb} GB: remove files first.`,
      );
    }
    await db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId);
      const before = await store.readSize(tx, projectId);
      await store.writeSize(tx, projectId, sizeGb);
      // Without a size of its own, the volume had the platform's maximum.
      const changes = { sizeGb: { old: before ?? max, new: sizeGb } };
      await record(tx, { ...entryOf(projectId), action: "volume.resize", by, changes });
    });
    await space.sizeChanged(projectId);
    return { sizeGb: space.sizeGb(projectId), usedBytes };
  }
}

/** The hash of the key in an address; the key itself is not stored. */
export function hashOfKey(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** Records an action on a file of a volume. */
export async function recordOfVolume(
  tx: Tx,
  {
    projectId,
    filePath,
    ...entry
  }: Pick<AuditEntry, "action" | "by"> & {
    readonly projectId: ProjectId;
    readonly filePath: string;
  },
): Promise<void> {
  await record(tx, { ...entryOf(projectId), ...entry, changes: { filePath: { new: filePath } } });
}

function entryOf(projectId: ProjectId): Pick<AuditEntry, "projectId" | "resource"> {
  return { projectId, resource: { type: "volume", id: volumeId } };
}
