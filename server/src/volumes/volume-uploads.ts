// Uploads of files to volumes, in parts that come in any order or at the same time. Each part is
// written at its offset in one file that no app sees. Completing the upload moves that file into
// the volume in one step; an upload that is not completed leaves no trace there.
import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { addAbortSignal, type Readable } from "node:stream";
import { olderPartBytes } from "@slipway/contract/older-clients.ts";
import { partBytes } from "@slipway/contract/volume-routes.ts";
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import { lockProject } from "#accounts/project-store.ts";
import type { By } from "#audit/record.ts";
import type { SharedDisk } from "#drivers/opened-driver.ts";
import type { Files } from "#drivers/storage-files.ts";
import { diskFullRetrySeconds, sizeText } from "#lib/disk-full.ts";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Latest } from "#lib/latest.ts";
import { Secret } from "#lib/secret.ts";
import { pathText, readFilePath } from "./volume-path.ts";
import type { VolumeSpace } from "./volume-space.ts";
import { requireFiles } from "./require-files.ts";
import * as store from "./volume-store.ts";
import { hashOfKey, recordOfVolume } from "./volumes.ts";
import type { Foundation } from "#store/foundation.ts";

export type VolumeUploadsOptions = Pick<Foundation, "db" | "clock"> & {
  /** Null: only apps reach the files of volumes. */
  readonly files: Pick<
    Files,
    "openIncoming" | "finishIncoming" | "hasIncoming" | "moveIncoming"
  > | null;
  readonly space: VolumeSpace;
  readonly disk: Pick<SharedDisk, "freeSpace" | "storeRefusal">;
  readonly ownerKeyOf: OwnerKeyOf;
};

/** A begun upload, with the key of the addresses that its parts are sent to. */
export type BegunUpload = {
  readonly uploadId: string;
  readonly partCount: number;
  readonly key: Secret;
};

export type ArrivingPart = {
  /** The request's Content-Length; null: unknown. */
  readonly length: number | null;
  readonly body: Readable;
};

/** A part as its client names it. */
export type NamedPart = { readonly number: number; readonly etag: string };

type Completion = {
  readonly projectId: ProjectId;
  readonly uploadId: string;
  readonly filePath: string;
  readonly parts: readonly NamedPart[];
};

/** The maximum number of open uploads of one project. */
const openMax = 1_000;
/** How many parts are received at the same time. */
const partsAtOnce = 64;
/** How many further parts wait; when as many wait, others are refused. */
const partsWaiting = 256;
/** How long a part waits until it is received. */
const waitMs = 20_000;
/**
 * The beginning of the key of an upload whose parts have `olderPartBytes`; no other key has a dot.
 */
const largePartsMark = "large.";
/** Characters of the digest in an etag. */
const digestLength = 32;

/** The uploads of all projects. */
export class VolumeUploads {
  readonly #options: VolumeUploadsOptions;
  /** `half`: the uploads of one owner take at most half of the slots that others leave. */
  readonly #gate = new Gate({ max: partsAtOnce, keyMax: "half", waitingMax: partsWaiting });
  /**
   * Lets only the latest request for each part continue: the client of an earlier request is gone
   * or has given up.
   */
  readonly #latest = new Latest(
    () => new Fault("conflict", "Another request sends the same part."),
  );
  /** How many parts are being written, by upload. */
  readonly #arriving = new Map<string, number>();
  /** The ids of the uploads that are being completed. */
  readonly #completing = new Set<string>();

  constructor(options: VolumeUploadsOptions) {
    this.#options = options;
  }

  /**
   * Begins an upload. Throws `Fault("invalid" | "conflict" | "too_large" | "not_usable" |
   * "unavailable")`.
   */
  async begin(
    projectId: ProjectId,
    file: { filePath: string; partCount: number; partBytes: number },
  ): Promise<BegunUpload> {
    const { db, space } = this.#options;
    const { partCount } = file;
    const filePath = pathText(readFilePath("file_path", file.filePath));
    requireFiles(this.#options.files);
    const open = await store.readOpenUploads(db, projectId);
    if (open.count >= openMax) {
      const text = `The project has begun ${openMax} uploads that are not complete, which is the limit: complete them, or wait until they end after ${store.volumeUploadHours} hours.`;
      throw new Fault("conflict", text);
    }
    // Counts only the parts that must be full, since the last one may have any size.
    const bytes = Math.max(0, partCount - 1) * file.partBytes;
    await space.requireSpace(projectId, open.bytes + bytes);
    this.#requireDisk(bytes);
    const mark = file.partBytes === olderPartBytes ? largePartsMark : "";
    const key = new Secret(mark + randomBytes(32).toString("base64url"));
    const id = randomUUID();
    await store.insertUpload(db, {
      id,
      projectId,
      filePath,
      partCount,
      keyHash: hashOfKey(key.reveal()),
    });
    return { uploadId: id, partCount, key };
  }

  /**
   * Stores a part, and returns its etag when the part is on disk. Throws `Fault("not_found" |
   * "invalid" | "too_large" | "conflict" | "unavailable")`; after a failure, an earlier version of
   * the part may be lost.
   */
  async receivePart(key: string, number: number, arriving: ArrivingPart): Promise<string> {
    const upload = await store.uploadByKey(this.#options.db, hashOfKey(key));
    // A number that is NaN is in no range, so it is refused too.
    const isPart = upload !== undefined && number >= 1 && number <= upload.partCount;
    if (!isPart)
      throw new Fault(
        "not_found",
        "There is no part of an upload with this address, or its time is over.",
      );
    if (upload.isComplete)
      throw new Fault("conflict", "The upload is complete: begin another one.");
    const leave = await this.#gate.enter({
      key: await this.#options.ownerKeyOf(upload.projectId),
      deadline: { waitMs, clock: this.#options.clock },
    });
    if (leave === null)
      throw new Fault("unavailable", "Too many uploads at once; try again.", {
        retryAfterSeconds: 5,
      });
    try {
      return await this.#latest.run(`${upload.id}/${number}`, (signal) =>
        this.#storePart(upload, number, { ...arriving, partMax: partMaxOf(key), signal }),
      );
    } finally {
      leave();
    }
  }

  /**
   * Moves the file into the volume and records that. When it throws a `Fault`, the parts that have
   * arrived stay.
   */
  async complete({ projectId, uploadId, filePath, parts }: Completion, by: By): Promise<void> {
    const upload = await store.uploadById(this.#options.db, projectId, uploadId);
    if (upload === undefined)
      throw new Fault("not_found", "The volume has no upload with that id, or its time is over.");
    if (pathText(readFilePath("file_path", filePath)) !== upload.filePath)
      throw new Fault(
        "invalid",
        `file_path must be that of the upload, ${JSON.stringify(upload.filePath)}.`,
      );
    // The client repeats its request, since it has not seen the answer to the first one.
    if (upload.isComplete) return;
    if (this.#completing.has(uploadId))
      throw new Fault("conflict", "Another request completes this upload.");
    if (this.#arriving.has(uploadId))
      throw new Fault("conflict", "Parts of the upload are still arriving.");
    this.#completing.add(uploadId);
    try {
      await this.#finish(upload, parts, by);
    } finally {
      this.#completing.delete(uploadId);
    }
  }

  async #storePart(
    { id, projectId, partCount }: store.VolumeUploadRow,
    number: number,
    {
      length,
      body,
      partMax,
      signal,
    }: ArrivingPart & { readonly partMax: number; readonly signal: AbortSignal },
  ): Promise<string> {
    if (this.#completing.has(id)) throw new Fault("conflict", "The upload is being completed.");
    this.#arriving.set(id, (this.#arriving.get(id) ?? 0) + 1);
    try {
      const bounds = { min: number < partCount ? partMax : 0, max: partMax };
      if (length !== null) requireSize(number, length, bounds);
      await this.#requireUnmoved(id);
      await this.#reserve(projectId, { uploadId: id, number, bytes: length ?? partMax });
      const file = await requireFiles(this.#options.files).openIncoming(id);
      try {
        const range = { from: (number - 1) * partMax, max: partMax };
        const written = await writeBody(file, range, addAbortSignal(signal, body));
        requireSize(number, written.bytes, bounds);
        await file.datasync();
        const part = { number, sizeBytes: written.bytes, digest: written.digest };
        await store.writePart(this.#options.db, id, part);
        return etagOf(part);
      } finally {
        await file.close();
      }
    } catch (error) {
      // A later request for the part has cut off this one; `error` says only that the body ended.
      if (signal.aborted) throw signal.reason;
      throw error;
    } finally {
      const remaining = (this.#arriving.get(id) ?? 1) - 1;
      if (remaining === 0) this.#arriving.delete(id);
      else this.#arriving.set(id, remaining);
    }
  }

  /**
   * Throws `Fault("conflict")` if the file is in the volume already. The database does not know of
   * the move if the platform was killed before the commit. Another part would begin a new file,
   * with zeros in the place of all other parts.
   */
  async #requireUnmoved(uploadId: string): Promise<void> {
    const files = requireFiles(this.#options.files);
    if (await files.hasIncoming(uploadId)) return;
    // If a part is stored, the file has been made, perhaps only after the line above has looked: by
    // another part that arrives at the same time. So the second look decides.
    const stored = await store.readParts(this.#options.db, uploadId);
    if (stored.length === 0 || (await files.hasIncoming(uploadId))) return;
    throw new Fault(
      "conflict",
      "The file of the upload has its place in the volume: complete the upload, or begin another one.",
    );
  }

  /**
   * Counts the bytes of a part before they arrive. They keep counting when the part is cut off:
   * otherwise uploads that never end could fill the disk.
   */
  async #reserve(
    projectId: ProjectId,
    part: { readonly uploadId: string; readonly number: number; readonly bytes: number },
  ): Promise<void> {
    const { db, space } = this.#options;
    const { uploadId, number, bytes } = part;
    this.#requireDisk(bytes);
    // What an earlier request has reserved for this part does not count again.
    const open = await store.readOpenUploads(db, projectId, part);
    await space.requireSpace(projectId, open.bytes + bytes);
    await store.reservePart(db, uploadId, { number, sizeBytes: bytes });
  }

  async #finish(
    upload: store.VolumeUploadRow,
    namedParts: readonly NamedPart[],
    by: By,
  ): Promise<void> {
    const { db, space } = this.#options;
    const files = requireFiles(this.#options.files);
    const { id, projectId, filePath, partCount } = upload;
    const stored = await store.readParts(db, id);
    requireParts(partCount, stored, namedParts);
    const bytes = stored.reduce((sum, part) => sum + part.sizeBytes, 0);
    // The file is in the volume already if the platform was killed after an earlier request had
    // moved it, and before the transaction was committed. An upload without parts has no file so
    // far.
    const isMoved = partCount > 0 && !(await files.hasIncoming(id));
    if (!isMoved) {
      await space.requireSpace(projectId, bytes);
      await files.finishIncoming(id, projectId, bytes);
    }
    await db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId);
      if (!(await store.completeVolumeUpload(tx, id))) return;
      await recordOfVolume(tx, { projectId, action: "volume.upload", by, filePath });
      // The file is moved last, since no rollback undoes the move. If the commit fails, a repeated
      // request finds that the file was moved.
      if (!isMoved) await files.moveIncoming({ projectId, names: filePath.split("/") }, id);
    });
    if (!isMoved) space.noteWritten(projectId, bytes);
  }

  /**
   * Throws `Fault("unavailable")` unless this many bytes fit on the disk beside the space that is
   * kept free for the platform.
   */
  #requireDisk(bytes: number): void {
    const { disk } = this.#options;
    const { freeSpace } = disk;
    const storeRefusal = disk.storeRefusal();
    const free = freeSpace.bytes - freeSpace.reserveBytes;
    if (storeRefusal === null && bytes <= free) return;
    const why = `The platform's disk has room for ${sizeText(Math.max(0, free))}, too little for the file.`;
    throw new Fault("unavailable", storeRefusal ?? why, {
      retryAfterSeconds: diskFullRetrySeconds,
    });
  }
}

/** The size of the parts of the upload with this key, except for the last one. */
function partMaxOf(key: string): number {
  return key.startsWith(largePartsMark) ? olderPartBytes : partBytes;
}

/**
 * Writes the body to the file, from the offset `from`. Throws when it has more than `max` bytes.
 */
async function writeBody(
  file: FileHandle,
  { from, max }: { readonly from: number; readonly max: number },
  body: Readable,
): Promise<{ readonly bytes: number; readonly digest: string }> {
  const hash = createHash("sha256");
  let bytes = 0;
  // A refusal ends this loop early: the request must stay open, so that it can be answered.
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if (bytes + chunk.length > max) throw tooLarge(max);
    hash.update(chunk);
    for (let written = 0; written < chunk.length;) {
      // One write may take only the beginning of the chunk. The last argument is where in the file
      // the bytes go.
      const { bytesWritten } = await file.write(
        chunk,
        written,
        chunk.length - written,
        from + bytes + written,
      );
      written += bytesWritten;
    }
    bytes += chunk.length;
  }
  return { bytes, digest: hash.digest("hex").slice(0, digestLength) };
}

/** Throws `Fault` for a part that is too large, or too small for one that others follow. */
function requireSize(
  number: number,
  bytes: number,
  { min, max }: { readonly min: number; readonly max: number },
): void {
  if (bytes > max) throw tooLarge(max);
  if (bytes >= min) return;
  const text = `Part ${number} has ${bytes} bytes, but every part before the last must have ${max}.`;
  throw new Fault("invalid", text);
}

function tooLarge(max: number): Fault {
  return new Fault("too_large", `A part has at most ${max} bytes.`);
}

/** Throws `Fault` unless each part has arrived as the client names it. */
function requireParts(
  partCount: number,
  stored: readonly store.PartRow[],
  namedParts: readonly NamedPart[],
): void {
  const etags = new Map(namedParts.map(({ number, etag }) => [number, etag]));
  const byNumber = new Map(stored.map((part) => [part.number, part]));
  if (namedParts.length !== partCount || etags.size !== partCount) {
    throw new Fault(
      "invalid",
      `parts has ${namedParts.length} parts, but must have each of the ${partCount} once.`,
    );
  }
  for (let number = 1; number <= partCount; number++) {
    const part = byNumber.get(number);
    if (part === undefined)
      throw new Fault("conflict", `Part ${number} has not arrived: send it again.`);
    const given = etags.get(number);
    if (given === undefined) throw new Fault("invalid", `parts has no part ${number}.`);
    if (given === etagOf(part)) continue;
    throw new Fault(
      "conflict",
      `Part ${number} has the etag ${given} in parts, but ${etagOf(part)} was stored last: complete the upload with that etag, or send the part again.`,
    );
  }
}

function etagOf({ digest }: Pick<store.PartRow, "digest">): string {
  return `"${digest}"`;
}
