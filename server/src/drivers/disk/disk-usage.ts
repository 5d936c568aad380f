// Measures the disk usage of folders with `du`: outside this process, on any file system, with
// correct counts of holes and links. Deleted files that are still open use space too; `find` sees
// them among the open files of processes.
import { toolsEnvironment } from "#drivers/short-command.ts";
import { existsSync, readdirSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { systemClock, type Clock } from "#lib/clock.ts";
import { runCommand, type CommandEnd } from "#lib/command.ts";
import { unlessExited, withDescendants } from "#drivers/process/process-table.ts";

/**
 * The space of a file system. `freeBytes` and `freeFiles` are what unprivileged users can use;
 * `freeFiles` is null on file systems without a fixed number of files.
 */
export type DiskSpace = {
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeFiles: number | null;
  readonly totalFiles: number;
};

export type DiskUsage = { readonly bytes: number; readonly files: number };

/**
 * Timeout for one folder, or the open files of one process: an app with millions of files does not
 * block measuring others.
 */
const measureTimeoutMs = 20_000;

/** Total and free space of the file system that holds the folder. */
export async function diskSpace(folder: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize, ffree, files } = await statfs(folder);
  const freeFiles = files > 0 ? ffree : null;
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize, freeFiles, totalFiles: files };
}

export type MeasureOptions = {
  /**
   * As in `Sandbox`: an ordinary user needs its own namespace to measure folders that apps have
   * closed to it.
   */
  readonly isUserOwned: boolean;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  /** The environment in which to find `du`. */
  readonly environment?: Readonly<Record<string, string>>;
};

/** How to run `du` or `find`. */
type RunOptions = Omit<MeasureOptions, "isUserOwned">;

/**
 * Size and number of files of each folder; null when counting takes longer than `measureTimeoutMs`.
 * Omits missing folders.
 */
export async function measure(
  folders: readonly string[],
  { isUserOwned, ...runOptions }: MeasureOptions,
): Promise<ReadonlyMap<string, DiskUsage | null>> {
  const inNamespace = isUserOwned ? ["unshare", "--user", "--map-root-user"] : [];
  // With -x, `du` stays on the folder's file system; with -s, it prints only the sum.
  const duSizes = (option: string, paths: readonly string[]): Promise<Map<string, number | null>> =>
    sizes([...inNamespace, "du", "-x", "-s", option, "--"], paths, runOptions);
  const kilobytes = await duSizes("-k", folders);
  const inTime = folders.filter((folder) => typeof kilobytes.get(folder) === "number");
  // Only GNU `du` counts files.
  const fileCounts = await duSizes("--inodes", inTime);
  return new Map(
    [...kilobytes].map(([path, size]) => {
      const count = fileCounts.get(path);
      const tookTooLong = size === null || count === null;
      // The count is undefined if this `du` cannot count files.
      return [path, tookTooLong ? null : { bytes: size * 1024, files: count ?? 0 }];
    }),
  );
}

/**
 * The number that `du` prints for each folder; null for a folder that takes too long. After a
 * timeout, `du` runs again for the remaining folders.
 */
async function sizes(
  du: readonly string[],
  folders: readonly string[],
  runOptions: RunOptions,
): Promise<Map<string, number | null>> {
  const sizeByFolder = new Map<string, number | null>();
  let remaining = folders;
  while (remaining.length > 0) {
    const end = await runShort([...du, ...remaining], runOptions, (line) => {
      const [, size, path = ""] = /^(\d+)\t(.+)$/.exec(line) ?? [];
      if (size !== undefined) sizeByFolder.set(path, Number(size));
    });
    if (end.kind !== "aborted" || runOptions.signal.aborted) break;
    // `du` prints folders in the given order, so the next one that exists took too long.
    const last = remaining.findLastIndex((folder) => sizeByFolder.has(folder));
    remaining = remaining.slice(last + 1).filter((folder) => existsSync(folder));
    const [slow] = remaining;
    if (slow !== undefined) sizeByFolder.set(slow, null);
    remaining = remaining.slice(1);
  }
  return sizeByFolder;
}

/**
 * The bytes of deleted files that the process or its descendants still have open or mapped (only
 * root can see which are mapped). Counts only files on the file system of `folder`, and on that of
 * the process's root. Null when the search takes too long, see `runShort`.
 */
export async function deletedBytes(
  pid: number,
  folder: string,
  runOptions: RunOptions,
): Promise<number | null> {
  // A thread may have its own descriptors.
  const folders = withDescendants(pid).flatMap((member) => [
    `/proc/${member}/map_files`,
    ...unlessExited(() => readdirSync(`/proc/${member}/task`)).map(
      (thread) => `/proc/${member}/task/${thread}/fd`,
    ),
  ]);
  // The files of a container are on an overlay of its own.
  const deviceOf = (path: string) => unlessExited(() => [String(statSync(path).dev)]);
  const devices = new Set([folder, `/proc/${pid}/root`].flatMap(deviceOf));
  // With -L, `find` sees the files to which the descriptors lead. A deleted file has no links.
  const onlyDeletedFiles = ["-maxdepth", "1", "-links", "0", "-type", "f"];
  // The device, the inode, and the number of blocks of 512 bytes.
  const print = ["-printf", "%D %i %b\\n"];
  const bytesByFile = new Map<string, number>();
  const find = ["find", "-L", ...folders, ...onlyDeletedFiles, ...print];
  const end = await runShort(find, runOptions, (line) => {
    const [dev, inode = "", blocks] = line.split(" ");
    if (devices.has(dev ?? "")) bytesByFile.set(`${dev} ${inode}`, Number(blocks) * 512);
  });
  if (end.kind === "aborted" || end.kind === "timeout") return null;
  return [...bytesByFile.values()].reduce((sum, bytes) => sum + bytes, 0);
}

/**
 * Runs a program and reads its lines. The program may fail for some folders, since files come and
 * go while it runs. Kills it (`aborted`) when the next line takes longer than `measureTimeoutMs`,
 * and (`timeout`) when all lines take longer than that for each argument.
 */
async function runShort(
  [file = "", ...args]: readonly string[],
  { signal, clock = systemClock, environment = toolsEnvironment }: RunOptions,
  onLine: (line: string) => void,
): Promise<CommandEnd> {
  const timeout = new AbortController();
  const wait = (): (() => void) => clock.after(measureTimeoutMs, () => timeout.abort());
  let cancelWait = wait();
  const end = await runCommand({
    command: [file, ...args],
    cwd: "/",
    environment,
    signal: AbortSignal.any([signal, timeout.signal]),
    // Each folder is one of the arguments, and may take the full time.
    timeoutMs: measureTimeoutMs * (args.length + 1),
    clock,
    onLine: (stream, text) => {
      if (stream !== "stdout") return;
      onLine(text);
      cancelWait();
      cancelWait = wait();
    },
  });
  cancelWait();
  return end;
}
