// Keeps backups in a bucket of an object store that speaks S3. A backup is uploaded in parts and
// appears when the last part is there. The parts of a backup that fails are removed; those of one
// that was killed are listed as an unfinished backup.
import { PassThrough, Readable, type Writable } from "node:stream";
import type { ReadableStream as NodeWebStream } from "node:stream/web";
import { S3mini, S3NetworkError, S3ServiceError, type UploadPart } from "s3mini";
import { z } from "zod";
import { CannotStart } from "#lib/cannot-start.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { errorCode } from "#lib/error-code.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import type { Secret } from "#lib/secret.ts";
import type { BackupFolder } from "./backup-folder.ts";

/** Where the object store is, and who may use it. */
export type S3Settings = {
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: Secret;
  readonly secretAccessKey: Secret;
};

/** The length of each part but the last. Some object stores take only parts of equal length. */
const partBytes = 32 * 1_048_576;
/** The maximum number of parts that an object store takes. */
const partsMax = 10_000;
/** When the upload of a part is retried: a server that is busy or restarts needs some seconds. */
const partRetries: RetryPolicy = {
  triesMax: 4,
  firstMs: 1_000,
  factor: 4,
  msMax: 30_000,
  jitter: 0.2,
};
/** How long a request may take; a part is small enough for a slow line. */
const requestMs = 600_000;
/** How long the reading of a whole backup may take. */
const readMs = 12 * 3_600_000;

/** How an unfinished upload is listed: by the name of its backup, and its id in the store. */
const uploadForm = /^(.+)\.unfinished-upload-(.+)$/;

const uploadShape = z.object({ Key: z.string(), UploadId: z.string() });
/** What a store answers: with one upload it is no list, and with none it is left out. */
const uploadsShape = z.object({
  ListMultipartUploadsResult: z.object({
    Upload: z.union([z.array(uploadShape), uploadShape.transform((one) => [one])]).default([]),
  }),
});

/** The objects of a bucket whose names begin with a prefix. */
export class S3Folder implements BackupFolder {
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #client: S3mini;
  readonly #reader: S3mini;
  readonly #clock: Clock;

  /** `prefix` is empty or ends with a slash. */
  constructor(
    settings: S3Settings,
    { bucket, prefix }: { bucket: string; prefix: string },
    clock: Clock = systemClock,
  ) {
    this.#bucket = bucket;
    this.#clock = clock;
    this.#prefix = prefix;
    const client = (requestAbortTimeout: number): S3mini =>
      new S3mini({
        endpoint: `${settings.endpoint}/${bucket}`,
        region: settings.region,
        accessKeyId: settings.accessKeyId.reveal(),
        secretAccessKey: settings.secretAccessKey.reveal(),
        requestAbortTimeout,
      });
    this.#client = client(requestMs);
    this.#reader = client(readMs);
  }

  addressOf(name: string): string {
    return `s3://${this.#bucket}/${this.#prefix}${name}`;
  }

  async check(name: string): Promise<void> {
    const exists = await this.#asked(() => this.#client.objectExists(this.#prefix + name));
    if (exists !== true) return;
    throw new CannotStart(`${this.addressOf(name)} exists already. Give another name.`);
  }

  async write(name: string, fill: (to: Writable) => Promise<void>): Promise<number> {
    const to = new PassThrough();
    // When `fill` fails, it destroys `to`. The upload ends then, since nobody needs its parts.
    const ended = new AbortController();
    to.once("close", () => {
      if (!to.writableFinished) ended.abort();
    });
    const uploading = this.#upload(this.#prefix + name, to, ended.signal).catch(
      (error: unknown) => {
        to.destroy(error instanceof Error ? error : undefined);
        throw error;
      },
    );
    // A failed upload destroys `to`, so that `fill` fails with the same error.
    const [uploaded, filled] = await Promise.allSettled([uploading, fill(to)]);
    if (filled.status === "rejected") throw filled.reason;
    if (uploaded.status === "rejected") throw uploaded.reason;
    return uploaded.value;
  }

  async read(name: string): Promise<Readable> {
    const response = await this.#asked(() => this.#reader.getObjectResponse(this.#prefix + name));
    if (response?.body === null || response?.body === undefined)
      throw new CannotStart(`There is no backup ${this.addressOf(name)}.`);
    return Readable.fromWeb(response.body as NodeWebStream<Uint8Array>);
  }

  async list(): Promise<readonly string[]> {
    // Without a maximum number of keys (`undefined`), the list is complete.
    const objects = await this.#asked(() =>
      this.#client.listObjects("/", this.#prefix, undefined, { delimiter: "/" }),
    );
    const names = (objects ?? []).map(({ Key }) => Key.slice(this.#prefix.length));
    return [...names, ...(await this.#listUploads())];
  }

  async remove(name: string): Promise<void> {
    const [, unfinished = "", uploadId = ""] = uploadForm.exec(name) ?? [];
    if (unfinished === "") await this.#asked(() => this.#client.deleteObject(this.#prefix + name));
    else
      await this.#asked(() =>
        this.#client.abortMultipartUpload(this.#prefix + unfinished, uploadId),
      );
  }

  /**
   * The names of unfinished uploads, at most 1,000: as many as a store lists at once. None when the
   * store does not list them, or the key may not see them: backups work without.
   */
  async #listUploads(): Promise<readonly string[]> {
    const answer = await this.#asked(async () => {
      try {
        return await this.#client.listMultipartUploads("/", "", "GET", { prefix: this.#prefix });
      } catch (error) {
        if (error instanceof S3ServiceError) return null;
        throw error;
      }
    });
    const uploads = uploadsShape.safeParse(answer).data?.ListMultipartUploadsResult.Upload ?? [];
    return uploads
      .map(({ Key, UploadId }) => ({ name: Key.slice(this.#prefix.length), UploadId }))
      .filter(({ name }) => !name.includes("/"))
      .map(({ name, UploadId }) => `${name}.unfinished-upload-${UploadId}`);
  }

  async #upload(key: string, from: Readable, signal: AbortSignal): Promise<number> {
    const uploadId = await this.#asked(() => this.#client.getMultipartUploadId(key));
    try {
      const parts: UploadPart[] = [];
      let bytes = 0;
      for await (const part of partsOf(from)) {
        if (parts.length === partsMax)
          throw new CannotStart("The backup is too large for an object of 10,000 parts of 32 MiB.");
        const number = parts.length + 1;
        parts.push(await this.#uploadPart({ key, uploadId, part, number }, signal));
        bytes += part.length;
      }
      await this.#asked(() => this.#client.completeMultipartUpload(key, uploadId, parts));
      return bytes;
    } catch (error) {
      // The error that is thrown below says more than an error of this removal would.
      await this.#client.abortMultipartUpload(key, uploadId).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Uploads a part, and retries if that fails: a server that is busy for a moment is no reason to
   * begin a long upload again.
   */
  async #uploadPart(
    upload: {
      readonly key: string;
      readonly uploadId: string;
      readonly part: Buffer;
      readonly number: number;
    },
    signal: AbortSignal,
  ): Promise<UploadPart> {
    const { key, uploadId, part, number } = upload;
    let failure: unknown;
    const options = {
      ...partRetries,
      clock: this.#clock,
      signal,
      onFailure: (error: unknown) => (failure = error),
    };
    const uploaded = await retry(options, () =>
      this.#asked(() => this.#client.uploadPart(key, uploadId, part, number)),
    );
    // Every try has failed, or `signal` has ended the tries.
    if (uploaded === undefined) throw failure ?? signal.reason;
    return uploaded;
  }

  /** Asks the server. Throws `CannotStart` with the server's reason, which holds no secret. */
  async #asked<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    try {
      return await ask();
    } catch (error) {
      throw new CannotStart(`The bucket ${this.#bucket} cannot be used: ${reasonOf(error)}.`, {
        cause: error,
      });
    }
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof S3ServiceError) {
    const answer = `the object store answered ${error.status} ${error.serviceCode ?? ""}`.trimEnd();
    return error.status === 404 ? `${answer}: it may have no bucket of this name` : answer;
  }
  const code = error instanceof S3NetworkError ? error.code : errorCode(error);
  const inner = error instanceof Error ? errorCode(error.cause) : "";
  return `no answer of the object store (${code || inner || "the request failed"})`;
}

/** The content in parts of `partBytes`, and at the end a part with the rest, which may be empty. */
async function* partsOf(from: Readable): AsyncGenerator<Buffer> {
  let pending: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of from as AsyncIterable<Buffer>) {
    pending.push(chunk);
    bytes += chunk.length;
    while (bytes >= partBytes) {
      const whole = Buffer.concat(pending);
      yield whole.subarray(0, partBytes);
      pending = [whole.subarray(partBytes)];
      bytes -= partBytes;
    }
  }
  yield Buffer.concat(pending);
}
