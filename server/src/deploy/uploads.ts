// Receives the zip of a deployment: limits its size, lets a client resume the upload, and answers
// only when the bytes are on the disk. When the zip is complete, the build that waits for it
// starts. `sources/upload.ts` unpacks the zip.
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
  /** The key by which the projects of one owner share the slots for uploads. */
  readonly ownerKeyOf: (projectId: ProjectId) => Promise<string>;
  /** The maximum size of one zip. */
  readonly bytesMax: number;
  readonly disk: {
    /** `bytes` is all that is free, including the platform's reserve. */
    readonly freeSpace: { readonly bytes: number; readonly reserveBytes: number };
    /** Why nothing new may be stored for builds, as a sentence; null when it may. */
    buildRefusal(): string | null;
  };
};

/** How much of an upload has arrived, and the state of the build that waits for it. */
export type UploadProgress = Pick<store.UploadRow, "buildId" | "buildStatus"> & {
  readonly receivedBytes: number;
  readonly isComplete: boolean;
};

/** A zip, or the next part of one. */
export type ArrivingUpload = {
  /** The request's Content-Range; null: the body is the whole zip. */
  readonly range: string | null;
  /** The request's Content-Length; null: unknown. */
  readonly length: number | null;
  readonly body: Readable;
};

/** Files that are stored as a zip, which is not yet the zip of an upload. */
export type StagedFiles = PackedFiles & { readonly zipPath: string };

/** A tar as it arrives, to be stored as a zip. */
export type ArrivingTar = {
  readonly tar: Readable;
  /** About how many bytes the tar has; 0: unknown. */
  readonly length: number;
  /** The folder of the zip for the tar's files. */
  readonly folder: string;
  /** The text of other files of the zip, by path. */
  readonly others: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
};

/** A part of an upload, in bytes: where it begins, its length, and the size of the whole upload. */
type Part = { readonly from: number; readonly length: number | null; readonly size: number | null };

/**
 * How much all waiting uploads of a project may take up, as a multiple of the largest size that one
 * upload may have. An upload is waiting until it is complete and its build has ended.
 */
const projectShare = 4;
/** After each 64 MiB, an upload checks again how much the project's uploads take up. */
const checkEveryBytes = 67_108_864;
/** How many requests may send uploads at the same time; as many again may wait for their turn. */
const atOnceMax = 64;
/** How long a request waits for its turn before it is refused. */
const waitMs = 10_000;
/** The form of Content-Range. Numbers of 15 digits are exact in JavaScript. */
const rangeForm = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/;

/** The uploads of all apps. */
export class Uploads {
  readonly #options: UploadsOptions;
  /**
   * The key is an owner, whose uploads take at most half of the slots that other owners leave, and
   * half of the queue.
   */
  readonly #gate = new Gate({
    max: atOnceMax,
    keyMax: "half",
    waitingMax: atOnceMax,
    keyWaitingMax: atOnceMax / 2,
  });
  /** A new request for an upload ends an earlier one, whose client is gone or has given up. */
  readonly #latest = new Latest(
    () => new Fault("conflict", "Another request sends the same upload."),
  );

  /**
   * How many bytes each arriving upload will have, by the upload's id and in the order in which the
   * uploads began. The files on the disk do not tell enough: many uploads may begin before any of
   * their bytes are stored.
   */
  readonly #expectedBytes = new Map<string, number>();

  constructor(options: UploadsOptions) {
    this.#options = options;
  }

  /** How much of an upload has arrived. Throws `Fault("not_found")` for an unknown key. */
  async progress(key: string): Promise<UploadProgress> {
    return await this.#progressOf(await this.#find(key));
  }

  /**
   * Stores an upload, or a part of it. Throws `Fault("not_found" | "not_usable" | "invalid" |
   * "conflict" | "too_large" | "unavailable" | "rate_limited" | "malformed")`. The bytes that
   * arrived before the fault stay on the disk, so that the client can resume.
   */
  async receive(key: string, arriving: ArrivingUpload): Promise<UploadProgress> {
    const upload = await this.#find(key);
    // If the upload is complete, its client repeats a request because it received no answer.
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
   * The zip of a build, as it was uploaded; the caller closes its file. Records the access. Throws
   * `Fault("not_found" | "conflict")`.
   */
  async filesOf(
    ref: BuildRef,
    by: By,
  ): Promise<{ readonly file: FileHandle; readonly bytes: number }> {
    const { db, uploadsDir } = this.#options;
    const { projectId, appId, buildId } = ref;
    const upload = await store.findUploadOf(db, ref);
    if (upload === undefined)
      throw new Fault("not_found", `The app ${shownAppId(appId)} has no build ${buildId}.`);
    if (upload.uploadId === null) throw new Fault("conflict", notUploadedText(upload.commit));
    const isStored = upload.isComplete && !upload.isRemoved;
    const file = isStored ? await open(join(uploadsDir, upload.uploadId)).catch(() => null) : null;
    if (file === null) {
      const why = upload.isComplete
        ? "were removed, since newer ones were uploaded"
        : "have not arrived";
      throw new Fault("conflict", `The files of this build ${why}.`);
    }
    try {
      const resource = { type: "build", id: buildId, name: shownAppId(appId) };
      const entry = { projectId, action: "build.download", by, resource } as const;
      await db.transaction().execute((tx) => record(tx, entry));
      return { file, bytes: (await file.stat()).size };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /**
   * Stores the files of a tar as a zip. `use` can then make this zip the zip of an upload. Throws
   * `Fault("invalid" | "too_large" | "unavailable")`.
   */
  async stage({ tar, length, ...packing }: ArrivingTar): Promise<StagedFiles> {
    const { uploadsDir, bytesMax } = this.#options;
    const requireSpace = (bytes: number): void =>
      this.#requireSpace({ from: 0, length: bytes, size: null });
    // A tar that is announced as too large is refused only when it has arrived up to the limit, so
    // more space than that is not required here.
    requireSpace(Math.min(length, bytesMax));
    const stagingDir = join(uploadsDir, stagingName);
    await mkdir(stagingDir, { recursive: true, mode: 0o700 });
    const zipPath = join(stagingDir, randomUUID());
    try {
      const files = await zipOfTar(tar, { ...packing, zipPath, bytesMax, requireSpace });
      return { zipPath, ...files };
    } catch (error) {
      await this.discard({ zipPath });
      throw error;
    }
  }

  /**
   * Completes an upload with staged files, so that its build begins. False: the build has ended.
   */
  async use({ zipPath }: Pick<StagedFiles, "zipPath">, uploadId: string): Promise<boolean> {
    const { db, uploadsDir } = this.#options;
    const file = await open(zipPath, "r+");
    const { size } = await file.stat();
    await file.datasync();
    await file.close();
    await rename(zipPath, join(uploadsDir, uploadId));
    return await store.completeUpload(db, { id: uploadId, bytes: size });
  }

  /** Removes staged files, unless they were used. */
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
    // An earlier request may have completed the upload before this one could abort it.
    if (upload.sizeBytes !== null) return await this.#progressOf(upload);
    this.#requireOpen(upload);
    const part = partOf(range, length);
    if (part.from > 0 && part.from !== (await this.#storedBytes(upload.id))) {
      const { receivedBytes } = await this.#progressOf(upload);
      throw new Fault(
        "conflict",
        `Content-Range begins at byte ${part.from}, but must go on at ${receivedBytes}.`,
      );
    }
    this.#requireSpace(part);
    await mkdir(uploadsDir, { recursive: true, mode: 0o700 });
    // A part that begins at byte 0 begins the upload anew; any other part continues the file.
    const file = await open(join(uploadsDir, upload.id), part.from === 0 ? "w" : "a", 0o600);
    let end = part.from;
    let nextCheckAt = end;
    try {
      // An error in the loop must not close the request, since the client still gets an answer.
      const chunks = addAbortSignal(signal, body).iterator({ destroyOnReturn: false });
      for await (const chunk of chunks as AsyncIterable<Buffer>) {
        // Checks the space for each chunk, since other uploads may have begun to use it too.
        this.#requireSpace({ from: end, length: chunk.length, size: null });
        if (end >= nextCheckAt) {
          nextCheckAt = end + checkEveryBytes;
          // An upload of unknown size counts with what it may have at the next check.
          const sizeAtNextCheck = Math.min(nextCheckAt + chunk.length, this.#options.bytesMax);
          await this.#requireShare(upload, part.size ?? sizeAtNextCheck);
        }
        await file.appendFile(chunk);
        end += chunk.length;
      }
      await file.datasync();
    } catch (error) {
      // A later request has cut off this one; `error` says only that the body ended.
      if (signal.aborted) throw signal.reason;
      throw error;
    } finally {
      this.#expectedBytes.delete(upload.id);
      await file.close();
    }
    if (part.size !== null && end < part.size) return await this.#progressOf(upload);
    if (end === 0)
      throw new Fault("invalid", "The body is empty, but must be a zip of the app's folder.");
    const isCompletedNow = await store.completeUpload(db, { id: upload.id, bytes: end });
    const completed = await this.#find(key);
    if (!isCompletedNow) this.#requireOpen(completed);
    return await this.#progressOf(completed);
  }

  /**
   * Throws when the upload would be larger than `bytesMax`, and when what comes after `from` does
   * not fit on the disk beside the platform's reserve.
   */
  #requireSpace({ from, length, size }: Part): void {
    const { bytesMax, disk } = this.#options;
    // A part of unknown length counts as empty here: `#store` checks each of its chunks.
    const endOfPart = from + (length ?? 0);
    const expectedSize = size ?? endOfPart;
    if (expectedSize > bytesMax) throw tooLarge(bytesMax);
    const refusal = disk.buildRefusal();
    const free = disk.freeSpace.bytes - disk.freeSpace.reserveBytes;
    if (refusal === null && expectedSize - from <= free) return;
    const why =
      refusal ??
      `The platform's disk has room for ${sizeText(Math.max(0, free))}, too little for the upload.`;
    throw new Fault("unavailable", why, { retryAfterSeconds: diskFullRetrySeconds });
  }

  /**
   * Throws when the project's waiting uploads would take up too much of the disk. Counts this
   * upload and those that began before it with the bytes that they will have, and those that began
   * later with the bytes that they have now.
   */
  async #requireShare({ id, projectId }: store.UploadRow, expectedBytes: number): Promise<void> {
    const { db, bytesMax } = this.#options;
    // An upload that is in the map already keeps its position. `set` returns the whole map.
    const inOrder = [...this.#expectedBytes.set(id, expectedBytes)];
    const position = inOrder.findIndex(([uploadId]) => uploadId === id);
    const expected = new Map(inOrder.slice(0, position + 1));
    const waitingIds = await store.waitingUploads(db, projectId);
    const sizes = await Promise.all(
      waitingIds.map(async (waitingId) => expected.get(waitingId) ?? this.#storedBytes(waitingId)),
    );
    const total = sizes.reduce((sum, size) => sum + size, 0);
    if (total <= projectShare * bytesMax) return;
    const text = `The project's uploads that wait for the rest of their files, or for their builds, would take ${sizeText(total)} together, more than ${sizeText(projectShare * bytesMax)} (${projectShare} times SLIPWAY_UPLOAD_SIZE_MB): wait until some have ended, or cancel their builds.`;
    throw new Fault("rate_limited", text, { retryAfterSeconds: 30 });
  }

  async #find(key: string): Promise<store.UploadRow> {
    const upload = await store.findUpload(this.#options.db, hashOfUploadKey(key));
    if (upload === undefined) throw new Fault("not_found", "There is no upload with this address.");
    return upload;
  }

  /** Throws when the upload is not complete and can no longer be completed. */
  #requireOpen({ isExpired, buildId, buildStatus, sizeBytes }: store.UploadRow): void {
    const isPending = buildStatus === "pending";
    if (sizeBytes !== null || (isPending && !isExpired)) return;
    const problem = isPending
      ? `The address takes files for ${store.uploadHours} hours, which are over`
      : `Build ${buildId}, which waited for these files, has ended`;
    throw new Fault("not_usable", `${problem}: deploy again (POST …/apps).`);
  }

  async #progressOf(upload: store.UploadRow): Promise<UploadProgress> {
    const { id, buildId, buildStatus, sizeBytes } = upload;
    const receivedBytes = sizeBytes ?? (await this.#storedBytes(id));
    return { buildId, buildStatus, receivedBytes, isComplete: sizeBytes !== null };
  }

  /** How many bytes of an upload are on the disk. */
  async #storedBytes(id: string): Promise<number> {
    return await stat(join(this.#options.uploadsDir, id)).then(
      ({ size }) => size,
      () => 0,
    );
  }
}

function notUploadedText(commit: string | null): string {
  const where = commit === null ? "its repository" : `its repository, at commit ${commit}`;
  return `The files of this build were not uploaded: they are in ${where}.`;
}

/** The folder of staged files, below the folder of uploads. */
const stagingName = "staging";

/** Removes what an earlier process has staged. To be called before anything is staged. */
export async function clearStaged(uploadsDir: string): Promise<void> {
  await rm(join(uploadsDir, stagingName), { recursive: true, force: true });
}

/** Deletes the files of all uploads whose ids `readKept` does not return. */
export async function collectUploads(
  uploadsDir: string,
  readKept: () => Promise<readonly string[]>,
): Promise<void> {
  // The row of an upload is always older than its file. As the files are listed before the rows are
  // read, each listed file of a new upload has a row that is read.
  const names = await readdir(uploadsDir).catch(() => []);
  // Without any files, the rows need not be read.
  const kept = new Set(names.length === 0 ? [] : await readKept());
  for (const name of names)
    if (!kept.has(name) && name !== stagingName) await rm(join(uploadsDir, name), { force: true });
}

/** The part that a request sends. Throws `Fault("invalid")` for headers that are contradictory. */
function partOf(range: string | null, length: number | null): Part {
  if (range === null) return { from: 0, length, size: length };
  const match = rangeForm.exec(range);
  const [first = 0, last = 0, size = 0] = match?.slice(1).map(Number) ?? [];
  const isRange = match !== null && first <= last && last < size;
  if (!isRange) {
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
