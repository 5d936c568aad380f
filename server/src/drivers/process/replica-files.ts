// The folder of one replica: what the platform writes there before it starts one, and what the replica's shell and
// runtime write, so that any later process of the platform finds all it must know. No secret is ever written here.
import { createHash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { chmod, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isDiskFull } from "#lib/disk-full.ts";
import type { Cgroup } from "./cgroup.ts";
import type { AppId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";

/** Where the parts of a replica's folder are. */
export type ReplicaPaths = ReturnType<typeof replicaPaths>;

/** The parts of the folder `dir`. */
export function replicaPaths(dir: string) {
  const at = (name: string): string => join(dir, name);
  return {
    dir,
    /** What the platform knows of it; written before anything is spawned. */
    record: at("record.json"),
    /** The shell's line of /proc/self/stat: created by the shell as its first act, or by who gives the start up. */
    pid: at("pid"),
    /** What the shell says: complaints of the sandbox, `running`, `exit <code>`. */
    state: at("state"),
    /** The runtime's one line of JSON. */
    ready: at("ready"),
    stdout: at("stdout"),
    stderr: at("stderr"),
    /** Where a sandboxed cortex app makes its socket, named `listenName`. */
    listen: at("listen"),
    etc: at("etc"),
    /** How much of the output was handed over. */
    offsets: at("offsets.json"),
    /** Written when `exited` is told. */
    ended: at("ended.json"),
    /** Where the sandbox puts the app's view together. */
    staging: at("root"),
    home: at("home"),
    temporary: at("tmp"),
    /** The app's own files: a copy, or what an overlay keeps of changes. */
    code: at("code"),
    overlayWork: at("work"),
  } as const;
}

/** Where the app has written to, but for its output. */
export function writtenFolders({ home, temporary, code, overlayWork }: ReplicaPaths): readonly string[] {
  return [home, temporary, code, overlayWork];
}

/** What the platform knows of a replica before it is spawned. */
export type ReplicaRecord = {
  readonly version: 1;
  readonly replicaId: ReplicaId;
  /** Who started it. Absent in records of older versions. */
  readonly instanceId?: string;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly projectId: ProjectId;
  readonly runtime: "cortex" | "custom";
  /** Where a server of the replica is reached; absent in records of older versions: the loopback address. */
  readonly host?: string;
  /** The port that the replica was given; null for a cortex app, which says its own or has a socket. */
  readonly port: number | null;
  /** Where the platform finds the socket of a cortex app; null or absent: it listens at a port. */
  readonly socket?: string | null;
  readonly hint: string | null;
  /** The program of the start command, for sentences. */
  readonly program: string;
  readonly isSandboxed: boolean;
  /** Process ids mean nothing after the machine was started again. */
  readonly bootId: string;
  /** Empty where nothing is held. Absent in records of older versions, as is `memoryGb`. */
  readonly cgroup?: Cgroup;
  readonly memoryGb?: number;
};

/** The process that stands for the replica; `startTicks` tells it from a later one of the same id. */
export type ProcessIdentity = { readonly pid: number; readonly group: number; readonly startTicks: string | null };

/** How it ended, as it was told. */
export type EndedRecord = { readonly exitCode: number | null; readonly signal: string | null; readonly reason: string };

export type StateFile = { readonly isRunning: boolean; readonly exitCode: number | null; readonly complaints: string };

/**
 * `port`: it listens there, or at its socket when that is 0. `error`: it will never be ready. Both absent: it said nothing yet.
 * `isLast`: it says nothing more.
 */
export type RuntimeReport = { readonly port?: number; readonly error?: string; readonly isLast: boolean };

/** The socket's name in the folder `listen`. */
export const listenName = "app.sock";
/** Of the kernel's 108, and macOS's 104, with the zero at the end. */
const socketPathBytesMax = 103;

/** A short path of its own for a replica's socket; null when even that is too long for a socket. */
export function socketPath(socketsDir: string, replicaId: ReplicaId): string | null {
  const path = join(socketsDir, createHash("sha256").update(replicaId).digest("hex").slice(0, 16));
  return Buffer.byteLength(path) <= socketPathBytesMax ? path : null;
}

/**
 * Takes the socket that a sandboxed app has made to `to`, where the app cannot put another file in its place; one that was
 * taken already stays. Returns what is wrong when it cannot: a link could lead the platform to any socket of the machine, and
 * a folder, or a file with too many names, cannot be linked. Never throws.
 */
export function takeSocket(paths: ReplicaPaths, to: string): string | null {
  try {
    if (isSocket(to)) return null;
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
    rmSync(to, { force: true });
    linkSync(join(paths.listen, listenName), to);
    if (isSocket(to)) return null;
    rmSync(to, { force: true });
  } catch (error) {
    if (codeOf(error) !== "ENOENT") return `the runtime's socket cannot be used (${codeOf(error)})`;
  }
  return "the runtime made no socket";
}

function isSocket(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSocket() === true;
}

/** Replaces a file in one step, so that a reader never sees half of it. */
export function writeWhole(path: string, value: unknown): void {
  writeFileSync(`${path}.new`, JSON.stringify(value), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** As `writeWhole`; false when the disk has no room for it. */
export function writeIfFits(path: string, value: unknown): boolean {
  try {
    writeWhole(path, value);
    return true;
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    return false;
  }
}

/** Null when the folder has no whole record: then nothing was spawned either. */
export function readRecord(paths: ReplicaPaths): ReplicaRecord | null {
  const value = readJson(paths.record);
  return value?.["version"] === 1 ? (value as ReplicaRecord) : null;
}

/** Null while its end was not told. */
export function readEnded(paths: ReplicaPaths): EndedRecord | null {
  return readJson(paths.ended) as EndedRecord | null;
}

/** What the shell has said so far. */
export function readState(paths: ReplicaPaths): StateFile {
  const lines = readText(paths.state).split("\n").slice(0, -1);
  const exit = lines.map((line) => /^exit (\d+)$/.exec(line)?.[1]).find((code) => code !== undefined);
  return {
    isRunning: lines.includes("running"),
    exitCode: exit === undefined ? null : Number(exit),
    complaints: lines.filter((line) => !/^(running|exit \d+)$/.test(line)).join(" "),
  };
}

/** When the shell said that the app has exited, in milliseconds since the epoch; null when it did not come to say so. */
export function readExitTime(paths: ReplicaPaths): number | null {
  if (readState(paths).exitCode === null) return null;
  const at = statSync(paths.state, { throwIfNoEntry: false })?.mtimeMs;
  return at === undefined ? null : Math.floor(at);
}

/** What the runtime has said. The app could write here too, so nothing is trusted. */
export function readReport(paths: ReplicaPaths): RuntimeReport {
  const text = readText(paths.ready);
  const lines = text.split("\n").slice(0, -1);
  if (lines.length === 0 && Buffer.byteLength(text) >= textBytesMax)
    return { error: "the runtime's report is too long", isLast: true };
  const read: RuntimeReport = { isLast: false };
  return lines.slice(0, reportLinesMax).reduce((report, line) => ({ ...report, ...reportOf(line) }), read);
}

function reportOf(line: string): RuntimeReport {
  try {
    const value = JSON.parse(line) as { listening?: unknown; ready?: unknown; port?: unknown; error?: unknown };
    if (value.ready !== true && value.listening !== true)
      return { error: (typeof value.error === "string" ? value.error : "").slice(0, errorCharactersMax), isLast: true };
    const port = Number(value.port);
    return Number.isInteger(port) && port >= 0 && port < 65_536
      ? { port, isLast: value.ready === true }
      : { error: "the runtime named no usable port", isLast: true };
  } catch {
    return { error: "the runtime's report cannot be read", isLast: true };
  }
}

const reportLinesMax = 2;
const errorCharactersMax = 1000;

/** Null while the shell has not begun. */
export function readPid(paths: ReplicaPaths): ProcessIdentity | null {
  const text = readText(paths.pid);
  if (!text.endsWith("\n")) return null;
  const identity = parseStat(text);
  if (identity !== null) return identity;
  // Without /proc the shell can only say its process id, which is its group too.
  const pid = Number(text.trim());
  return Number.isInteger(pid) && pid > 1 ? { pid, group: pid, startTicks: null } : null;
}

/** A line of /proc/<pid>/stat; the name in parentheses may hold anything. */
export function parseStat(
  text: string,
): (ProcessIdentity & { readonly state: string; readonly parent: number }) | null {
  const nameEnd = text.lastIndexOf(")");
  if (nameEnd < 0) return null;
  const pid = Number.parseInt(text, 10);
  const fields = text
    .slice(nameEnd + 2)
    .trim()
    .split(" ");
  const [state, parent, group] = fields;
  const startTicks = fields[19];
  if (state === undefined || startTicks === undefined || !(pid > 1)) return null;
  return { pid, group: Number(group), startTicks, state, parent: Number(parent) };
}

/** Takes the shell's place, so that a start that was begun by a platform now dead can never go on. False: it has begun. */
export function giveUpStart(paths: ReplicaPaths): boolean {
  try {
    closeSync(openSync(paths.pid, "wx", 0o600));
    return true;
  } catch (error) {
    // Created by the shell, or by an earlier giving up, which left it empty.
    if (codeOf(error) === "EEXIST") return readText(paths.pid) === "";
    throw error;
  }
}

/** Removes a folder that programs of apps have written to; they may have left folders in it that even their owner cannot enter. */
export async function removeFolder(dir: string): Promise<void> {
  try {
    await rm(dir, { recursive: true, force: true });
  } catch (error) {
    if (!["EACCES", "EPERM", "ENOTEMPTY"].includes(codeOf(error))) throw error;
    await openFolders(dir);
    await rm(dir, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Removes all of a replica that has ended, its record first: were the rest left by a kill, it would not be taken for one. */
export async function removeReplica(paths: ReplicaPaths): Promise<void> {
  const socket = readRecord(paths)?.socket;
  if (typeof socket === "string") await rm(socket, { force: true });
  await rm(paths.record, { force: true });
  await removeFolder(paths.dir);
}

/** What the first attempt is still removing may be gone by the time it is looked at. */
async function openFolders(dir: string): Promise<void> {
  try {
    await chmod(dir, 0o700);
    for (const entry of await readdir(dir, { withFileTypes: true })) {
      if (entry.isDirectory()) await openFolders(join(dir, entry.name));
    }
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? "";
}

/** Null when the file is not there or not whole. */
export function readJson(path: string): Record<string, unknown> | null {
  if (!existsSync(path)) return null;
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
  } catch {
    return null;
  }
}

/**
 * Calls `open` again after giving the platform back its right to read: where apps run as the platform's own user, they can
 * take that from the files that they write to.
 */
export function withRightToRead<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (codeOf(error) !== "EACCES") throw error;
    chmodSync(path, 0o600);
    return open();
  }
}

/** What the shell and the runtime say is far shorter; an app could make `ready` as large as it likes. */
const textBytesMax = 65_536;
const textBuffer = Buffer.allocUnsafe(textBytesMax);

/** At most the first 64 KiB. */
function readText(path: string): string {
  let file: number;
  try {
    file = withRightToRead(path, () => openSync(path, "r"));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return "";
    throw error;
  }
  try {
    return textBuffer.toString("utf8", 0, readSync(file, textBuffer, 0, textBytesMax, 0));
  } finally {
    closeSync(file);
  }
}
