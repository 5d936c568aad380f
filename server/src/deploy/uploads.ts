// Takes the zip of a deployment as it arrives: bounded in size, resumable, on disk before it is
// acknowledged. Its build starts when it is complete. `sources/upload.ts` unpacks it.
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { addAbortSignal, type Readable } from "node:stream";
import type { BuildRef } from "#apps/build-receiver.ts";
import { hashOfUploadKey } from "#apps/upload-deployments.ts";
import { record, type By } from "#audit/record.ts";
import { diskFullRetrySeconds, sizeText } from "#lib/disk-full.ts";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";
import { shownAppId, type ProjectId } from "#lib/ids.ts";
import { Latest } from "#lib/latest.ts";
import type { Foundation } from "#store/foundation.ts";
import { zipOfTar, type PackedFiles } from "./tar-files.ts";
import * as store from "./upload-store.ts";

export type UploadsOptions = Pick<Foundation, "db" | "clock"> & {
  readonly uploadsDir: string;
  /** Whom a project counts to in fair shares. */
  readonly ownerKeyOf: (projectId: ProjectId) => Promise<string>;
  /** The maximum size of one zip. */
  readonly bytesMax: number;
  readonly disk: {
    readonly freeSpace: { readonly bytes: number; readonly reserveBytes: number };
    /** Why nothing new may be stored for builds, as a sentence; null when it may. */
    buildRefusal(): string | null;
  };
};

/** What is known of an upload. */
export type UploadProgress = Pick<store.UploadRow, "buildId" | "buildStatus"> & {
  readonly receivedBytes: number;
  readonly isComplete: boolean;
};

/** A zip, or the next part of one. */
export type ArrivingUpload = {
  /** Content-Range; null: all of it, from the start. */
  readonly range: string | null;
  /** Content-Length; null: unknown. */
  readonly length: number | null;
  readonly body: Readable;
};

/** Files that are not those of an upload yet. */
export type StagedFiles = PackedFiles & { readonly zipPath: string };

/** A tar as it arrives, and what its zip has beside it. */
export type ArrivingTar = {
  readonly tar: Readable;
  /** About how many bytes it has; 0: unknown. */
  readonly length: number;
  readonly folder: string;
  readonly others: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
};

type Part = { readonly from: number; readonly length: number | null; readonly size: number | null };

/**
 * What all waiting uploads of a project may hold together, as a multiple of the largest upload. An
 * upload waits until it is complete and its build has ended.
 */
const waitingMax = 4;
/** The others are counted again after so many bytes. */
const countEveryBytes = 67_108_864;
const atOnceMax = 64;
const waitMs = 10_000;
const rangeForm = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/;

/** The uploads of all apps. */
export class Uploads {
  readonly #options: UploadsOptions;
  readonly #gate = new Gate({
    max: atOnceMax,
    keyMax: "half",
    waitingMax: atOnceMax,
    keyWaitingMax: atOnceMax / 2,
  });
  /** By upload: the client of an earlier request for the same one is gone or has given up. */
  readonly #latest = new Latest(
    () => new Fault("conflict", "Another request sends the same upload."),
  );

  /**
   * Bytes that uploads will have, those that began earlier first: many may begin before anything of
   * them is stored.
   */
  readonly #arriving = new Map<string, number>();

  constructor(options: UploadsOptions) {
    this.#options = options;
  }

  /** Throws `Fault("not_found")` for a key that no address has. */
  async progress(key: string): Promise<UploadProgress> {
    return await this.#progressOf(await this.#find(key));
  }

  /**
   * Stores what arrives. Throws `Fault("not_found" | "not_usable" | "invalid" | "conflict" |
   * "too_large" | "unavailable" | "rate_limited" | "malformed")`; what has arrived by then is kept,
   * unless it was too large.
   */
  async receive(key: string, arriving: ArrivingUpload): Promise<UploadProgress> {
    const upload = await this.#find(key);
    // Its client has not seen the answer to the same request.
    if (upload.sizeBytes !== null) return await this.#progressOf(upload);
    this.#requireOpen(upload);
    const leave = await this.#gate.enter({
      key: await this.#options.ownerKeyOf(upload.projectId),
      deadline: { waitMs, clock: this.#options.clock },
    });
    if (leave === null)
      throw new Fault("unavailable", "Too many uploads at once; try again.", {
        retryAfterSeconds: 5,
      });
    try {
      return await this.#latest.run(upload.id, (signal) => this.#store(key, arriving, signal));
    } finally {
      leave();
    }
  }

  /**
   * The zip of a build, as it was uploaded; the caller closes it. Records the access. Throws
   * `Fault("not_found" | "conflict")`.
   */
  async filesOf(
    ref: BuildRef,
    by: By,
  ): Promise<{ readonly file: FileHandle; readonly bytes: number }> {
    const { db, uploadsDir } = this.#options;
    const found = await store.findUploadOf(db, ref);
    if (found === undefined) {
      throw new Fault("not_found", `The app ${shownAppId(ref.appId)} has no build ${ref.buildId}.`);
    }
    if (found.uploadId === null) throw new Fault("conflict", inRepository(found.commit));
    const isThere = found.isComplete && !found.isRemoved;
    const file = isThere ? await open(join(uploadsDir, found.uploadId)).catch(() => null) : null;
    if (file === null) {
      const why = found.isComplete
        ? "were removed, since newer ones were uploaded"
        : "have not arrived";
      throw new Fault("conflict", `The files of this build ${why}.`);
    }
    try {
      const resource = { type: "build", id: ref.buildId, name: shownAppId(ref.appId) };
      await db
        .transaction()
        .execute((tx) =>
          record(tx, { projectId: ref.projectId, action: "build.download", by, resource }),
        );
      return { file, bytes: (await file.stat()).size };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /**
   * Stores the files of a tar as a zip, which `use` may make that of an upload. Throws
   * `Fault("invalid" | "too_large" | "unavailable")`.
   */
  async stage({ tar, length, ...given }: ArrivingTar): Promise<StagedFiles> {
    const { uploadsDir, bytesMax } = this.#options;
    const requireRoom = (bytes: number): void =>
      this.#requireRoom({ from: 0, length: bytes, size: null });
    requireRoom(Math.min(length, bytesMax));
    const stagingDir = join(uploadsDir, stagingName);
    await mkdir(stagingDir, { recursive: true, mode: 0o700 });
    const zipPath = join(stagingDir, randomUUID());
    try {
      return { zipPath, ...(await zipOfTar(tar, { ...given, zipPath, bytesMax, requireRoom })) };
    } catch (error) {
      await this.discard({ zipPath });
      throw error;
    }
  }

  /** The build of the upload begins with these files. False: it has ended. */
  async use({ zipPath }: Pick<StagedFiles, "zipPath">, uploadId: string): Promise<boolean> {
    const { db, uploadsDir } = this.#options;
    const file = await open(zipPath, "r+");
    const { size } = await file.stat();
    await file.datasync();
    await file.close();
    await rename(zipPath, join(uploadsDir, uploadId));
    return await store.completeUpload(db, { id: uploadId, bytes: size });
  }

  /** Removes files that were not used. */
  async discard({ zipPath }: Pick<StagedFiles, "zipPath">): Promise<void> {
    await rm(zipPath, { force: true });
  }

  async #store(
    key: string,
    { range, length, body }: ArrivingUpload,
    signal: AbortSignal,
  ): Promise<UploadProgress> {
    const { uploadsDir, db } = this.#options;
    const upload = await this.#find(key);
    const part = partOf(range, length);
    if (part.from > 0 && part.from !== (await this.#stored(upload.id))) {
      const { receivedBytes } = await this.#progressOf(upload);
      throw new Fault(
        "conflict",
        `Content-Range begins at byte ${part.from}, but must go on at ${receivedBytes}.`,
      );
    }
    this.#requireRoom(part);
    await mkdir(uploadsDir, { recursive: true, mode: 0o700 });
    const file = await open(join(uploadsDir, upload.id), part.from === 0 ? "w" : "a", 0o600);
    let end = part.from;
    let countAt = end;
    try {
      // A refusal leaves the request open for its answer.
      const chunks = addAbortSignal(signal, body).iterator({ destroyOnReturn: false });
      for await (const chunk of chunks as AsyncIterable<Buffer>) {
        // Also here: many may have begun when there was room.
        this.#requireRoom({ from: end, length: chunk.length, size: null });
        if (end >= countAt) {
          countAt = end + countEveryBytes;
          await this.#requireShare(
            upload,
            part.size ?? Math.min(countAt + chunk.length, this.#options.bytesMax),
          );
        }
        await file.appendFile(chunk);
        end += chunk.length;
      }
      await file.datasync();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      throw error;
    } finally {
      this.#arriving.delete(upload.id);
      await file.close();
    }
    if (part.size !== null && end < part.size) return await this.#progressOf(upload);
    if (end === 0)
      throw new Fault("invalid", "The body is empty, but must be a zip of the app's folder.");
    const isFirst = await store.completeUpload(db, { id: upload.id, bytes: end });
    const now = await this.#find(key);
    if (!isFirst) this.#requireOpen(now);
    return await this.#progressOf(now);
  }

  /** `part` must fit, beside what the disk keeps free for the platform. */
  #requireRoom({ from, length, size }: Part): void {
    const { bytesMax, disk } = this.#options;
    const wanted = size ?? from + (length ?? 0);
    if (wanted > bytesMax) throw tooLarge(bytesMax);
    const refusal = disk.buildRefusal();
    const free = disk.freeSpace.bytes - disk.freeSpace.reserveBytes;
    if (refusal === null && wanted - from <= free) return;
    const why =
      refusal ??
      `The platform's disk has room for ${sizeText(Math.max(0, free))}, too little for the upload.`;
    throw new Fault("unavailable", why, { retryAfterSeconds: diskFullRetrySeconds });
  }

  /** The project's uploads that wait must not fill the disk together. */
  async #requireShare({ id, projectId }: store.UploadRow, bytes: number): Promise<void> {
    const { db, bytesMax } = this.#options;
    const begun = [...this.#arriving.set(id, bytes)];
    const wanted = new Map(begun.slice(0, begun.findIndex(([one]) => one === id) + 1));
    const ids = await store.waitingUploads(db, projectId);
    const stored = await Promise.all(
      ids.map(async (one) => wanted.get(one) ?? (await this.#stored(one))),
    );
    const total = stored.reduce((sum, one) => sum + one, 0);
    if (total <= waitingMax * bytesMax) return;
    const text = `The project's uploads that wait for the rest of their files, or for their builds, would take ${sizeText(total)} together, more than ${sizeText(waitingMax * bytesMax)} (${waitingMax} times SLIPWAY_UPLOAD_SIZE_MB): wait until some have ended, or cancel their builds.`;
    throw new Fault("rate_limited", text, { retryAfterSeconds: 30 });
  }

  async #find(key: string): Promise<store.UploadRow> {
    const upload = await store.findUpload(this.#options.db, hashOfUploadKey(key));
    if (upload === undefined) throw new Fault("not_found", "There is no upload with this address.");
    return upload;
  }

  #requireOpen({ isExpired, buildId, buildStatus, sizeBytes }: store.UploadRow): void {
    if (sizeBytes !== null || (buildStatus === "pending" && !isExpired)) return;
    const why =
      buildStatus === "pending"
        ? `takes files for ${store.uploadHours} hours, which are over`
        : "has ended";
    const what =
      buildStatus === "pending" ? "The address" : `Build ${buildId}, which waited for these files,`;
    throw new Fault("not_usable", `${what} ${why}: deploy again (POST …/apps).`);
  }

  async #progressOf({
    id,
    buildId,
    buildStatus,
    sizeBytes,
  }: store.UploadRow): Promise<UploadProgress> {
    const receivedBytes = sizeBytes ?? (await this.#stored(id));
    return { buildId, buildStatus, receivedBytes, isComplete: sizeBytes !== null };
  }

  async #stored(id: string): Promise<number> {
    return await stat(join(this.#options.uploadsDir, id)).then(
      ({ size }) => size,
      () => 0,
    );
  }
}

function inRepository(commit: string | null): string {
  const where = commit === null ? "its repository" : `its repository, at commit ${commit}`;
  return `The files of this build were not uploaded: they are in ${where}.`;
}

/** Below the folder of uploads. */
const stagingName = "staging";

/** Removes what an earlier process has staged; called before anything is. */
export async function clearStaged(uploadsDir: string): Promise<void> {
  await rm(join(uploadsDir, stagingName), { recursive: true, force: true });
}

/** Deletes the files of all other uploads. */
export async function collectUploads(
  uploadsDir: string,
  readKept: () => Promise<readonly string[]>,
): Promise<void> {
  // Before the rows: an upload that begins in between has a row.
  const names = await readdir(uploadsDir).catch(() => []);
  const kept = new Set(names.length === 0 ? [] : await readKept());
  for (const name of names)
    if (!kept.has(name) && name !== stagingName) await rm(join(uploadsDir, name), { force: true });
}

function partOf(range: string | null, length: number | null): Part {
  if (range === null) return { from: 0, length, size: length };
  const [first, last, size] = (rangeForm.exec(range) ?? []).slice(1).map(Number);
  if (
    first === undefined ||
    last === undefined ||
    size === undefined ||
    last < first ||
    last >= size
  ) {
    throw new Fault(
      "invalid",
      "Content-Range must be of the form bytes {first}-{last}/{size}, such as bytes 0-999/5000.",
    );
  }
  if (length !== last - first + 1) {
    throw new Fault(
      "invalid",
      `Content-Range names ${last - first + 1} bytes, but Content-Length is ${length ?? "missing"}.`,
    );
  }
  return { from: first, length, size };
}

function tooLarge(bytesMax: number): Fault {
  return new Fault(
    "too_large",
    `The upload is larger than ${sizeText(bytesMax)} (SLIPWAY_UPLOAD_SIZE_MB).`,
  );
}
