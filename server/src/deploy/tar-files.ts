// Turns the tar of a file run into the zip of a deployment while the tar arrives. Accepts only
// files, in a bounded number, and folders, all with names that stay inside the app's folder.
// `uploads.ts` calls it; the build unpacks the zip with its own checks.
import { createWriteStream } from "node:fs";
import { Transform, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { extract, type Entry } from "tar-stream";
import { ZipFile } from "yazl";
import { errorMessage } from "#lib/error-message.ts";
import { sizeText } from "#lib/disk-full.ts";
import { Fault } from "#lib/fault.ts";
import { filesMax, storedPath } from "./sources/upload.ts";

/** The files that the zip got from the tar. */
export type PackedFiles = {
  /** Their paths in the tar. */
  readonly files: ReadonlySet<string>;
  /** The size of the tar. */
  readonly bytes: number;
};

type Packing = {
  readonly zipPath: string;
  /** The maximum size of the tar. */
  readonly bytesMax: number;
  /** The folder in the zip for the files of the tar. */
  readonly folder: string;
  /** The texts of further files in the zip, by path. */
  readonly others: Readonly<Record<string, string>>;
  /**
   * Called with the length of each piece of the tar. Throws `Fault` when the disk lacks space.
   */
  readonly requireSpace: (bytes: number) => void;
  readonly signal: AbortSignal;
};

/**
 * The maximum size of headers in a row: the tar reader keeps them in memory, and a tar can declare
 * headers of any length.
 */
const headerBytesMax = 4 * 1_048_576;

/**
 * Writes the files of the tar into a zip, and reads the tar to its end. Throws `Fault("invalid" |
 * "too_large")` for what the sender of the tar can fix.
 */
export async function zipOfTar(
  tar: Readable,
  { zipPath, folder, others, ...options }: Packing,
): Promise<PackedFiles> {
  const files = new Set<string>();
  const zip = new ZipFile();
  for (const [path, text] of Object.entries(others)) zip.addBuffer(Buffer.from(text), path);
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const entries = extract();
  const guard = new Guard(options);
  const reading = pipeline(tar, guard.stream, entries, { signal });
  const writing = pipeline(
    zip.outputStream,
    createWriteStream(zipPath, { flags: "wx", mode: 0o600 }),
    { signal },
  );
  const packing = async (): Promise<void> => {
    for await (const entry of entries) {
      guard.passed();
      const path = pathOf(entry, files);
      if (path === null) {
        entry.resume();
        continue;
      }
      if (files.size >= filesMax)
        throw new Fault("invalid", `The tar has more than ${filesMax} files.`);
      files.add(path);
      // The zip gets a regular file that everybody may read. Everybody may also execute it if the
      // tar lets anybody execute it.
      const isExecutable = ((entry.header.mode ?? 0) & 0o111) !== 0;
      const mode = isExecutable ? 0o100755 : 0o100644;
      const counted = new Transform({
        transform(chunk: Buffer, _encoding, done) {
          guard.passed();
          done(null, chunk);
        },
      });
      zip.addReadStream(counted, `${folder}/${path}`, { mode, compress: false });
      await pipeline(entry, counted, { signal });
    }
    zip.end();
  };
  const parts = [reading, packing(), writing];
  try {
    const partsEndingAll = parts.map((part) => part.catch((error: unknown) => endAll(error, stop)));
    await Promise.all(partsEndingAll);
  } catch {
    // The first failure ends the other parts, whose errors say nothing. All parts must have stopped
    // writing before this function ends. What the caller aborted, or the guard refused, comes
    // before errors that follow from it.
    await Promise.allSettled(parts);
    throw options.signal.aborted
      ? options.signal.reason
      : (guard.refusal ?? refusalOf(stop.signal.reason));
  }
  if (files.size === 0) throw new Fault("invalid", "The tar has no files.");
  return { files, bytes: guard.bytes };
}

/** Ends all parts because of the first error of one. */
function endAll(error: unknown, stop: AbortController): never {
  if (!stop.signal.aborted) stop.abort(error);
  throw error;
}

/** Counts the bytes of the tar, and the bytes since the last content of a file: the headers. */
class Guard {
  bytes = 0;
  /** Why the tar is refused; null: it is not. */
  refusal: unknown = null;
  readonly stream: Transform;
  readonly #packing: Pick<Packing, "bytesMax" | "requireSpace">;
  #headerBytes = 0;

  constructor(packing: Pick<Packing, "bytesMax" | "requireSpace">) {
    this.#packing = packing;
    this.stream = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        try {
          this.#count(chunk.length);
          done(null, chunk);
        } catch (error) {
          this.refusal = error;
          done(error as Error);
        }
      },
    });
  }

  /** Called when a file or folder of the tar begins, or a piece of a file's content was read. */
  passed(): void {
    this.#headerBytes = 0;
  }

  #count(length: number): void {
    const { bytesMax, requireSpace } = this.#packing;
    this.bytes += length;
    this.#headerBytes += length;
    if (this.bytes > bytesMax) {
      throw new Fault(
        "too_large",
        `The tar is larger than ${sizeText(bytesMax)} (SLIPWAY_UPLOAD_SIZE_MB).`,
      );
    }
    if (this.#headerBytes > headerBytesMax) {
      throw new Fault(
        "invalid",
        `The tar has ${sizeText(headerBytesMax)} without the content of a file.`,
      );
    }
    requireSpace(length);
  }
}

/** The path of a file; null for a folder, which is made when a file in it is unpacked. */
function pathOf({ header: { name, type } }: Entry, files: ReadonlySet<string>): string | null {
  const shown = JSON.stringify(name.slice(0, 200));
  if (type === "link" || type === "symlink") {
    throw new Fault(
      "invalid",
      `${shown} in the tar is a link, which uploads cannot hold: send the file itself.`,
    );
  }
  const isFolder = type === "directory";
  if (!isFolder && type !== "file" && type !== "contiguous-file") {
    throw new Fault("invalid", `${shown} in the tar is neither a file nor a folder.`);
  }
  const path = storedPath(name);
  const isUsable = path !== null && (path !== "" || isFolder);
  if (!isUsable) {
    throw new Fault("invalid", `The tar holds a file with a name that cannot be stored: ${shown}.`);
  }
  if (files.has(path)) throw new Fault("invalid", `The tar holds ${shown} twice.`);
  return isFolder ? null : path;
}

/** Errors of the system are the platform's fault; all others are the tar's. */
function refusalOf(error: unknown): unknown {
  const isSystemError = error instanceof Error && "syscall" in error;
  if (error instanceof Fault || isSystemError) return error;
  const text = errorMessage(error);
  const why = text.slice(0, 300).replace(/\.$/, "");
  return new Fault("invalid", `The tar cannot be read: ${why}.`, { cause: error });
}
