// Measures what folders take of the disk, by `du`: outside this process, on any file system, holes and links counted as they
// are. What was deleted but is still open takes room too; `find` sees it among the open files of processes.
import { execFile } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { withDescendants } from "./process-table.ts";

/** Free for a user without rights. `files` is null on file systems without a fixed number of them. */
export type DiskRoom = {
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeFiles: number | null;
  readonly totalFiles: number;
};

export type Usage = { readonly bytes: number; readonly files: number };

/** A machine on which this takes longer is beyond help; what was measured by then counts. */
const measureTimeoutMs = 120_000;
const outputBytesMax = 64 * 1024 * 1024;

/** How full the file system is that holds the folder. */
export async function diskRoom(folder: string): Promise<DiskRoom> {
  const { bavail, blocks, bsize, ffree, files } = await statfs(folder);
  return {
    freeBytes: bavail * bsize,
    totalBytes: blocks * bsize,
    freeFiles: files > 0 ? ffree : null,
    totalFiles: files,
  };
}

/**
 * Room and number of files of each folder; one that is not there or cannot be measured is left out. `isUserOwned`: as in
 * `Sandbox`; a user may measure folders that its apps have closed to it only in a namespace of its own.
 */
export async function measure(folders: readonly string[], isUserOwned: boolean): Promise<ReadonlyMap<string, Usage>> {
  if (folders.length === 0) return new Map();
  const inNamespace = isUserOwned ? ["unshare", "--user", "--map-root-user"] : [];
  const sized = (option: string): Promise<Map<string, number>> =>
    run([...inNamespace, "du", "-x", "-s", option, "--", ...folders]).then(readSizes);
  const kilobytes = await sized("-k");
  // What is not GNU's does not count files.
  const files = await sized("--inodes");
  return new Map([...kilobytes].map(([path, size]) => [path, { bytes: size * 1024, files: files.get(path) ?? 0 }]));
}

/** Bytes of deleted files on the file system of `folder` that the process or one that it has started holds open or, as root sees, mapped. */
export async function deletedBytes(pid: number, folder: string): Promise<number> {
  // A thread may have descriptors of its own.
  const folders = withDescendants(pid).flatMap((one) => [
    `/proc/${one}/map_files`,
    ...threadsOf(one).map((thread) => `/proc/${one}/task/${thread}/fd`),
  ]);
  const device = String(statSync(folder).dev);
  const text = await run([
    "find",
    "-L",
    ...folders,
    "-maxdepth",
    "1",
    "-links",
    "0",
    "-type",
    "f",
    "-printf",
    "%D %i %b\\n",
  ]);
  const found = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [dev, inode = "", blocks] = line.split(" ");
    if (dev === device) found.set(inode, Number(blocks) * 512);
  }
  return [...found.values()].reduce((sum, bytes) => sum + bytes, 0);
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // It has ended meanwhile.
  }
}

/** Standard output, also of a program that complains about some of the folders: files come and go while it looks. */
function run([file = "", ...args]: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    const options = { timeout: measureTimeoutMs, killSignal: "SIGKILL", maxBuffer: outputBytesMax } as const;
    execFile(file, args, options, (_error, stdout) => resolve(stdout));
  });
}

function readSizes(text: string): Map<string, number> {
  const lines = text.split("\n").map((line) => /^(\d+)\t(.+)$/.exec(line));
  return new Map(lines.flatMap((found) => (found === null ? [] : [[found[2] ?? "", Number(found[1])] as const])));
}
