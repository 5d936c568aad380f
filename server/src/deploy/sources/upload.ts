// Unpacks the zip of a deployment into a separate folder: nothing outside of it, no links, bounded
// in number and size. Called by `deploy/make-artifact.ts`, stage `source`.
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
import { isDiskFull, sizeText } from "#lib/disk-full.ts";

/** The maximum number of files in one upload. */
export const filesMax = 200_000;
const foldersMaxDefault = 50_000;
const pathLengthMax = 1000;
const partLengthMax = 255;
/**
 * Files of apps, also sparse ones, are packed to a tenth or so; of small uploads anything is fine.
 */
const ratioMax = 200;
const modestBytes = 256_000_000;
/** Old packers of Windows write backslashes between folders, which the library reads as slashes. */
const zipOptions = { lazyEntries: true, autoClose: false, strictFileNames: false } as const;
const fileTypeBits = 0o170000;
const fileTypes = { regular: 0o100000, folder: 0o040000, link: 0o120000 } as const;

type Limits = { readonly bytesMax: number; readonly foldersMax?: number };
type UnpackingOptions = Limits & { readonly appDir: string; readonly signal: AbortSignal };

/**
 * Unpacks the zip at `zipPath` into `folder`, which is made new. Rejects with `BuildFailed` for
 * what its sender can fix.
 */
export async function unpack(
  { zipPath, folder, ...max }: Limits & { readonly zipPath: string; readonly folder: string },
  { log, signal }: Pick<SourceRequest, "log" | "signal">,
): Promise<FetchedSource> {
  await removeFolder(folder);
  const appDir = join(folder, "app");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // Copies keep its mode, and commands of the build run as another user.
  await mkdir(appDir);
  const unpacking = new Unpacking({ appDir, signal, ...max });
  try {
    await requireModest(zipPath, max.bytesMax, signal);
    const zip = await openPromise(zipPath, zipOptions);
    try {
      for await (const entry of zip.eachEntry()) await unpacking.take(zip, entry);
    } finally {
      zip.close();
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof BuildFailed || isDiskFull(error) || isOfSystem(error)) throw error;
    throw new BuildFailed(`The upload cannot be unpacked: ${reasonOf(error)}.`, { cause: error });
  }
  const { files, bytes } = unpacking;
  if (files.size === 0) throw new BuildFailed("The upload has no files.");
  log(
    "source",
    "platform",
    `Unpacked ${files.size} uploaded ${files.size === 1 ? "file" : "files"}, ${sizeText(bytes)}.`,
  );
  const content = contentOf(files);
  const nothing = {
    commit: null,
    message: null,
    author: null,
    branch: null,
    defaultBranch: null,
    sharedPaths: [],
  };
  return { ...nothing, content, appDir };
}

/**
 * Refuses what would take far more than it seems, before anything of it is written: parts of a zip
 * may be in many of its files.
 */
async function requireModest(
  zipPath: string,
  bytesMax: number,
  signal: AbortSignal,
): Promise<void> {
  const { size } = await stat(zipPath);
  const modestMax = Math.max(modestBytes, size * ratioMax);
  let bytes = 0;
  const zip = await openPromise(zipPath, zipOptions);
  try {
    for await (const entry of zip.eachEntry()) {
      signal.throwIfAborted();
      bytes += entry.uncompressedSize;
      if (bytes > bytesMax) throw tooLarge(bytesMax);
      if (bytes <= modestMax) continue;
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

class Unpacking {
  /** The digest of each file, by path. */
  readonly files = new Map<string, string>();
  bytes = 0;
  readonly #options: UnpackingOptions;
  /** Folders that exist. */
  readonly #folders = new Set<string>();

  constructor(options: UnpackingOptions) {
    this.#options = options;
  }

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
        done(this.bytes > this.#options.bytesMax ? tooLarge(this.#options.bytesMax) : null, chunk);
      },
    });
    const content = await zip.openReadStreamPromise(entry);
    // Nothing may come in between: until the pipeline has it, nobody takes an error of the file,
    // which would end the platform.
    const file = createWriteStream(join(appDir, path), { flags: "wx", mode });
    await pipeline(content, count, file, { signal });
    this.files.set(path, `${mode.toString(8)} ${digest.digest("hex")}`);
  }

  /** With those above it, each of which counts: one short name can hold hundreds. */
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

/** A path below the app's folder; the library has refused absolute ones and `..`. */
function pathOf({ fileName }: Entry): string {
  const path = storedPath(fileName);
  if (path !== null && path !== "") return path;
  if (path === "" && fileName.endsWith("/")) return ".";
  throw new BuildFailed(
    `The upload holds a file with a name that cannot be stored: ${quoted(fileName)}.`,
  );
}

/**
 * The relative path that the name of a file in an archive means, "" for the folder itself; null: it
 * must not be stored.
 */
export function storedPath(name: string): string | null {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  const path = parts.join("/");
  const isFine = parts.every((part) => part !== ".." && Buffer.byteLength(part) <= partLengthMax);
  const hasForm =
    path.length <= pathLengthMax && path.isWellFormed() && !/[\x00-\x1f\x7f\\]/.test(path);
  return isFine && hasForm && !name.startsWith("/") ? path : null;
}

/** Only zips of Unix have modes. */
function modeOf({ externalFileAttributes, versionMadeBy }: Entry, path: string): number {
  const mode = versionMadeBy >> 8 === 3 ? externalFileAttributes >>> 16 : 0;
  const type = mode & fileTypeBits;
  if (type === fileTypes.link) {
    throw new BuildFailed(
      `${quoted(path)} in the upload is a link, which uploads cannot hold: send the file itself.`,
    );
  }
  if (type !== 0 && type !== fileTypes.regular && type !== fileTypes.folder) {
    throw new BuildFailed(`${quoted(path)} in the upload is neither a file nor a folder.`);
  }
  return (mode & 0o111) === 0 ? 0o644 : 0o755;
}

/** Identifies the files by their paths, contents and modes, whatever the zip looks like. */
function contentOf(files: ReadonlyMap<string, string>): string {
  const digest = createHash("sha256");
  for (const [path, file] of [...files].toSorted(([one], [other]) => (one < other ? -1 : 1)))
    digest.update(`${path}\0${file}\n`);
  return digest.digest("hex");
}

/**
 * Errors of paths mean that the zip's names contradict each other; all others of the system are the
 * platform's.
 */
function isOfSystem(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return (
    /^E[A-Z]+$/.test(code) &&
    !["EEXIST", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "EILSEQ"].includes(code)
  );
}

function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const isContradiction = error instanceof Error && "path" in error;
  return (isContradiction ? "two of its names contradict each other" : text)
    .slice(0, 300)
    .replace(/\.$/, "");
}

function quoted(path: string): string {
  return JSON.stringify(path.slice(0, 200));
}
