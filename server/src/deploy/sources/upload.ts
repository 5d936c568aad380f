// Unpacks the zip of a deployment into a folder of its own. Writes only below that folder, makes no
// links, and limits how many files there are and how large they get. Called by
// `deploy/make-artifact.ts`, stage `source`.
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { openPromise, type Entry, type ZipFile } from "yauzl";
import type { FetchedSource, SourceRequest } from "#deploy/source.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isDiskFull, sizeText } from "#lib/disk-full.ts";
import { errorCode } from "#lib/error-code.ts";

/** The maximum number of files in one upload. */
export const filesMax = 200_000;
/** The maximum number of folders in one upload; tests set a smaller one. */
const foldersMaxDefault = 50_000;
/** Far longer than the paths of apps, and far below the system's limit of 4096 bytes. */
const pathLengthMax = 1000;
/** The limit of file systems for the name of one file or folder, in bytes. */
const partLengthMax = 255;
/**
 * How many times larger than its zip an upload may be when it is unpacked. Files of apps are
 * usually packed to about a tenth of their size.
 */
const ratioMax = 200;
/** Up to this unpacked size, the ratio does not matter. */
const anyRatioBytesMax = 256_000_000;
/**
 * How the library reads a zip: one entry at a time, and the zip stays open until `close` is called.
 * Old packers of Windows write backslashes between folders; without strict names, the library reads
 * them as slashes.
 */
const zipOptions = { lazyEntries: true, autoClose: false, strictFileNames: false } as const;
/** The bits of a mode that say what kind of file it is, and the values of the kinds. */
const fileTypeBits = 0o170000;
const fileTypes = { regular: 0o100000, folder: 0o040000, link: 0o120000 } as const;

/** The limits for what a zip unpacks to. */
type Limits = { readonly bytesMax: number; readonly foldersMax?: number };
type UnpackingOptions = Limits & { readonly appDir: string; readonly signal: AbortSignal };

/**
 * Unpacks the zip at `zipPath` into `folder`, which is emptied before. Rejects with `BuildFailed`
 * when the zip is at fault.
 */
export async function unpack(
  { zipPath, folder, ...limits }: Limits & { readonly zipPath: string; readonly folder: string },
  { log, signal }: Pick<SourceRequest, "log" | "signal">,
): Promise<FetchedSource> {
  await removeFolder(folder);
  const appDir = join(folder, "app");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // Readable for everybody: copies keep the mode, and commands of the build run as other users.
  await mkdir(appDir);
  const unpacking = new Unpacking({ appDir, signal, ...limits });
  try {
    await requireFittingSize(zipPath, limits.bytesMax, signal);
    const zip = await openPromise(zipPath, zipOptions);
    try {
      for await (const entry of zip.eachEntry()) await unpacking.take(zip, entry);
    } finally {
      zip.close();
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof BuildFailed || isDiskFull(error) || isOfSystem(error)) throw error;
    throw new BuildFailed(
      `The upload cannot be unpacked: ${reasonOf(error)}. Make the zip file again, and upload it.`,
      { cause: error },
    );
  }
  const { files, bytes } = unpacking;
  if (files.size === 0) throw new BuildFailed("The upload has no files.");
  const noun = files.size === 1 ? "file" : "files";
  log("source", "platform", `Unpacked ${files.size} uploaded ${noun}, ${sizeText(bytes)}.`);
  const withoutCommit = {
    commit: null,
    message: null,
    author: null,
    branch: null,
    defaultBranch: null,
    sharedPaths: [],
  };
  return { ...withoutCommit, content: contentOf(files), appDir };
}

/**
 * Throws `BuildFailed` when the zip announces that it unpacks to far more than its size. In such a
 * zip, many entries may use the same packed bytes.
 */
async function requireFittingSize(
  zipPath: string,
  bytesMax: number,
  signal: AbortSignal,
): Promise<void> {
  const { size } = await stat(zipPath);
  const unpackedMax = Math.max(anyRatioBytesMax, size * ratioMax);
  let bytes = 0;
  const zip = await openPromise(zipPath, zipOptions);
  try {
    for await (const entry of zip.eachEntry()) {
      signal.throwIfAborted();
      bytes += entry.uncompressedSize;
      if (bytes > bytesMax) throw tooLarge(bytesMax);
      if (bytes <= unpackedMax) continue;
      const text = `The upload unpacks to more than ${ratioMax} times its size of ${sizeText(size)}: leave out files that hold the same again and again, or make them in the build.`;
      throw new BuildFailed(text);
    }
  } finally {
    zip.close();
  }
}

function tooLarge(bytesMax: number): BuildFailed {
  return new BuildFailed(
    `The unpacked upload is larger than ${sizeText(bytesMax)} (SLIPWAY_UPLOAD_SIZE_MB).`,
  );
}

/** Unpacks one zip, entry by entry. */
class Unpacking {
  /** The mode and the digest of each file, as one text, by path. */
  readonly files = new Map<string, string>();
  /** The unpacked bytes so far. */
  bytes = 0;
  readonly #options: UnpackingOptions;
  /** The folders that were already created. */
  readonly #folders = new Set<string>();

  constructor(options: UnpackingOptions) {
    this.#options = options;
  }

  /** Writes one entry below the app's folder. Rejects with `BuildFailed` for a forbidden entry. */
  async take(zip: ZipFile, entry: Entry): Promise<void> {
    const { appDir, signal } = this.#options;
    signal.throwIfAborted();
    const path = pathOf(entry);
    const mode = modeOf(entry, path);
    if (entry.fileName.endsWith("/")) return await this.#makeFolder(path);
    if (this.files.has(path)) throw new BuildFailed(`The upload holds ${quoted(path)} twice.`);
    if (this.files.size >= filesMax)
      throw new BuildFailed(`The upload has more than ${filesMax} files.`);
    if (entry.isEncrypted()) throw new BuildFailed(`${quoted(path)} in the upload is encrypted.`);
    await this.#makeFolder(dirname(path));
    const digest = createHash("sha256");
    const count = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        this.bytes += chunk.length;
        digest.update(chunk);
        // Passing an error to `done` ends the unpacking.
        done(this.bytes > this.#options.bytesMax ? tooLarge(this.#options.bytesMax) : null, chunk);
      },
    });
    const content = await zip.openReadStreamPromise(entry);
    // Nothing may be awaited between the next two statements: until the pipeline has the file, an
    // error of the file has no handler, and would end the platform.
    const file = createWriteStream(join(appDir, path), { flags: "wx", mode });
    await pipeline(content, count, file, { signal });
    this.files.set(path, `${mode.toString(8)} ${digest.digest("hex")}`);
  }

  /** Creates the folder and its parents. All of them count: one short path may name hundreds. */
  async #makeFolder(path: string): Promise<void> {
    if (path === "." || this.#folders.has(path)) return;
    await this.#makeFolder(dirname(path));
    const { appDir, foldersMax = foldersMaxDefault } = this.#options;
    if (this.#folders.size >= foldersMax)
      throw new BuildFailed(`The upload has more than ${foldersMax} folders.`);
    await mkdir(join(appDir, path));
    this.#folders.add(path);
  }
}

/** The entry's path below the app's folder; "." for the folder itself. */
function pathOf({ fileName }: Entry): string {
  const path = storedPath(fileName);
  if (path !== null && path !== "") return path;
  if (path === "" && fileName.endsWith("/")) return ".";
  throw new BuildFailed(
    `The upload holds a file with a name that cannot be stored: ${quoted(fileName)}.`,
  );
}

/**
 * The relative path at which to store a file that has this name in an archive; "" for the top
 * folder of the archive. Null: a file of that name must not be stored.
 */
export function storedPath(name: string): string | null {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  const path = parts.join("/");
  const hasGoodParts = parts.every(
    (part) => part !== ".." && Buffer.byteLength(part) <= partLengthMax,
  );
  const isGoodPath =
    path.length <= pathLengthMax && path.isWellFormed() && !/[\x00-\x1f\x7f\\]/.test(path);
  const isStorable = hasGoodParts && isGoodPath && !name.startsWith("/");
  return isStorable ? path : null;
}

/** The mode for the file: executable if its mode in the zip is. Only zips of Unix have modes. */
function modeOf({ externalFileAttributes, versionMadeBy }: Entry, path: string): number {
  // The high byte 3 stands for Unix; the mode is then in the upper half of the attributes.
  const isOfUnix = versionMadeBy >> 8 === 3;
  const mode = isOfUnix ? externalFileAttributes >>> 16 : 0;
  // The type is 0 when the zip has no modes, or modes without a type.
  const type = mode & fileTypeBits;
  if (type === fileTypes.link) {
    throw new BuildFailed(
      `${quoted(path)} in the upload is a link, which uploads cannot hold: send the file itself.`,
    );
  }
  if (type !== 0 && type !== fileTypes.regular && type !== fileTypes.folder) {
    throw new BuildFailed(`${quoted(path)} in the upload is neither a file nor a folder.`);
  }
  // 0o111 has the bits of all who may execute the file.
  return (mode & 0o111) === 0 ? 0o644 : 0o755;
}

/** A digest of the paths, contents and modes of all files, regardless of how they are packed. */
function contentOf(files: ReadonlyMap<string, string>): string {
  const digest = createHash("sha256");
  const byPath = [...files].toSorted(([one], [other]) => (one < other ? -1 : 1));
  for (const [path, file] of byPath) digest.update(`${path}\0${file}\n`);
  return digest.digest("hex");
}

/**
 * True for errors of the system that are the platform's problem. The listed errors are the zip's
 * fault: its names contradict each other, or cannot be file names.
 */
function isOfSystem(error: unknown): boolean {
  const code = errorCode(error);
  const isOfZip = ["EEXIST", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "EILSEQ"].includes(code);
  return /^E[A-Z]+$/.test(code) && !isOfZip;
}

/** Why the zip cannot be unpacked, as part of a sentence. */
function reasonOf(error: unknown): string {
  if (["ENAMETOOLONG", "EILSEQ"].includes(errorCode(error)))
    return "one of its names is too long, or cannot be stored on the platform's disk";
  // Other errors of the file system have a path, and here they are about names; see `isOfSystem`.
  const isContradiction = error instanceof Error && "path" in error;
  const reason = isContradiction ? "two of its names contradict each other" : errorMessage(error);
  return reason.slice(0, 300).replace(/\.$/, "");
}

function quoted(path: string): string {
  return JSON.stringify(path.slice(0, 200));
}
