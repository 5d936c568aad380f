// Turns the tar of a file that runs once into the zip of a deployment, as it arrives: only files
// and folders, bounded, with names that stay inside. `uploads.ts` calls it; the build unpacks the
// zip with its own checks.
import { createWriteStream } from "node:fs";
import { Transform, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { extract, type Entry } from "tar-stream";
import { ZipFile } from "yazl";
import { sizeText } from "#lib/disk-full.ts";
import { Fault } from "#lib/fault.ts";
import { filesMax, storedPath } from "./sources/upload.ts";

/** What is in the zip. */
export type PackedFiles = {
  /** The paths of the tar. */
  readonly files: ReadonlySet<string>;
  readonly bytes: number;
};

type Packing = {
  readonly zipPath: string;
  /** The maximum size of the tar. */
  readonly bytesMax: number;
  /** Where the files of the tar go. */
  readonly folder: string;
  /** What is beside that folder, by path. */
  readonly others: Readonly<Record<string, string>>;
  /**
   * Called with the length of each piece of the tar. Throws `Fault` when the disk lacks space.
   */
  readonly requireSpace: (bytes: number) => void;
  readonly signal: AbortSignal;
};

/** The tar reader keeps headers in memory, whose length a tar says itself. */
const headerBytesMax = 4 * 1_048_576;

/**
 * Reads the tar to its end. Throws `Fault("invalid" | "too_large")` for what its sender can fix.
 */
export async function zipOfTar(
  tar: Readable,
  { zipPath, folder, others, ...given }: Packing,
): Promise<PackedFiles> {
  const files = new Set<string>();
  const zip = new ZipFile();
  for (const [path, text] of Object.entries(others)) zip.addBuffer(Buffer.from(text), path);
  const stop = new AbortController();
  const signal = AbortSignal.any([given.signal, stop.signal]);
  const entries = extract();
  const guard = new Guard(given);
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
      const mode = ((entry.header.mode ?? 0) & 0o111) === 0 ? 0o100644 : 0o100755;
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
    await Promise.all(parts.map((part) => part.catch((error: unknown) => endAll(error, stop))));
  } catch {
    // The first failure ends the other parts, whose errors say nothing. None of them may write any
    // more.
    await Promise.allSettled(parts);
    throw given.signal.aborted
      ? given.signal.reason
      : (guard.refusal ?? refusalOf(stop.signal.reason));
  }
  if (files.size === 0) throw new Fault("invalid", "The tar has no files.");
  return { files, bytes: guard.bytes };
}

function endAll(error: unknown, stop: AbortController): never {
  if (!stop.signal.aborted) stop.abort(error);
  throw error;
}

/** Counts the tar, and what of it is only headers. */
class Guard {
  bytes = 0;
  /** Why it goes no further. */
  refusal: unknown = null;
  readonly stream: Transform;
  readonly #packing: Pick<Packing, "bytesMax" | "requireSpace">;
  #headerBytes = 0;

  constructor(packing: Pick<Packing, "bytesMax" | "requireSpace">) {
    this.#packing = packing;
    this.stream = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        try {
          this.#take(chunk.length);
          done(null, chunk);
        } catch (error) {
          this.refusal = error;
          done(error as Error);
        }
      },
    });
  }

  /** A file began, or a piece of one was read. */
  passed(): void {
    this.#headerBytes = 0;
  }

  #take(length: number): void {
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

/** Null: it is a folder, which a file in it makes. */
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
  if (path === null || (path === "" && !isFolder)) {
    throw new Fault("invalid", `The tar holds a file with a name that cannot be stored: ${shown}.`);
  }
  if (files.has(path)) throw new Fault("invalid", `The tar holds ${shown} twice.`);
  return isFolder ? null : path;
}

/** Errors of the system are the platform's; all others are the tar's. */
function refusalOf(error: unknown): unknown {
  const isOfSystem = error instanceof Error && "syscall" in error;
  if (error instanceof Fault || isOfSystem) return error;
  const text = error instanceof Error ? error.message : String(error);
  return new Fault("invalid", `The tar cannot be read: ${text.slice(0, 300).replace(/\.$/, "")}.`, {
    cause: error,
  });
}
