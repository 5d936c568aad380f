// The folder of one replica: the files that the platform writes before the start, and the files of
// the replica's shell and runtime. A later process of the platform finds there all that it needs to
// know of the replica. The folder never contains secrets.
import { createHash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  statSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ReplicaSpec } from "#drivers/driver.ts";
import { readJson } from "#drivers/json-file.ts";
import type { CardClaim } from "#drivers/pools/cards.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import { errorCode } from "#lib/error-code.ts";
import type { Cgroup } from "./cgroup.ts";
import type { ReplicaId } from "#lib/ids.ts";

/** Paths in a replica's folder. */
export type ReplicaPaths = ReturnType<typeof replicaPaths>;

/** Returns the paths below the folder `dir`. */
export function replicaPaths(dir: string) {
  const at = (name: string): string => join(dir, name);
  return {
    dir,
    /** The platform's record of the replica; written before anything is spawned. */
    record: at("record.json"),
    /**
     * The shell's line of /proc/self/stat. The shell creates the file before anything else, or the
     * platform does when it gives up the start.
     */
    pid: at("pid"),
    /** Output of the shell: errors of the sandbox, `running`, `exit <code>`. */
    state: at("state"),
    /** The runtime's report; each line is JSON. */
    ready: at("ready"),
    stdout: at("stdout"),
    stderr: at("stderr"),
    /** Folder where a sandboxed cortex app creates its socket `listenName`. */
    listen: at("listen"),
    /** How much of the replica's output was delivered. */
    offsets: at("offsets.json"),
    /** How the replica exited; written just before the event `exited`. */
    ended: at("ended.json"),
    home: at("home"),
    temporary: at("tmp"),
    /** The app's own files: a copy, or the changes in an overlay. */
    code: at("code"),
    overlayWork: at("work"),
    /** For the overlays of a replica that was started from a zygote. */
    homeWork: at("work-home"),
    temporaryWork: at("work-tmp"),
  } as const;
}

/** Folders that the app has written to, except for its output and its socket. */
export function writtenFolders({
  home,
  temporary,
  code,
  overlayWork,
  homeWork,
  temporaryWork,
}: ReplicaPaths): readonly string[] {
  return [home, temporary, code, overlayWork, homeWork, temporaryWork];
}

/** The platform's record of a replica, written before the spawn. */
export type ReplicaRecord = Pick<
  ReplicaSpec,
  "replicaId" | "appId" | "releaseId" | "projectId" | "runtime"
> & {
  readonly version: 1;
  /**
   * Host of the replica's server. Absent in records of older versions: the loopback address.
   */
  readonly host?: string;
  /**
   * The port that the replica was given; null when a cortex app has a socket instead, or reports a
   * port that it has chosen itself, as in older versions.
   */
  readonly port: number | null;
  /**
   * The path at which the platform finds the socket of a cortex app; null or absent: the app
   * listens on a port.
   */
  readonly socket?: string | null;
  /**
   * Why the replica may never accept calls at its address, as a sentence for the app's owner; null:
   * nothing is unusual.
   */
  readonly hint: string | null;
  /** The program of the start command, for messages. */
  readonly program: string;
  /**
   * The folder with the files of the app's build, which the replica may have changed. Absent in
   * records of older versions.
   */
  readonly appDir?: string;
  readonly isSandboxed: boolean;
  /** Identifies the machine's boot: after the next one, process ids mean nothing. */
  readonly bootId: string;
  /**
   * The replica's control groups; empty when it has no limits. Absent in records of older versions,
   * as is `memoryGb`.
   */
  readonly cgroup?: Cgroup;
  readonly memoryGb?: number;
  /**
   * When the replica was started, in milliseconds since the machine's boot. Its shell may be older,
   * since shells are made in advance. Absent in records of older versions.
   */
  readonly startedBootMs?: number;
  /** The replica's claim in a pool. Absent in records of older versions. */
  readonly claim?: CardClaim;
  /** The id of the zygote that the replica was started from; absent: it has imported the app. */
  readonly zygoteId?: ReplicaId;
};

/**
 * The process that represents the replica; `startTicks` distinguishes it from a later one with the
 * same id.
 */
export type ProcessIdentity = {
  readonly pid: number;
  /** The id of its process group. */
  readonly group: number;
  /** When it started, as the kernel counts; null on a machine without /proc. */
  readonly startTicks: string | null;
};

/** How the replica exited, as it was reported. */
export type EndedRecord = {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly reason: string;
};

/**
 * What the shell has written to `state`. `isRunning`: it was about to start the app, or has started
 * it. `complaints`: the errors of the sandbox.
 */
export type StateFile = {
  readonly isRunning: boolean;
  readonly exitCode: number | null;
  readonly complaints: string;
};

/**
 * `port`: the runtime listens there, or on its socket when the port is 0. `error`: why the runtime
 * will never be ready. Both absent: the runtime has reported nothing yet. `isLast`: no further
 * report follows.
 */
export type RuntimeReport = {
  readonly port?: number;
  readonly error?: string;
  readonly isLast: boolean;
};

/** The socket's name in the folder `listen`. */
export const listenName = "app.sock";
/** A socket's path has at most 108 bytes on Linux and 104 on macOS, with a zero byte at its end. */
const socketPathBytesMax = 103;

/** A unique short path for a replica's socket; null when even it is too long for a socket. */
export function socketPath(socketsDir: string, replicaId: ReplicaId): string | null {
  const path = join(socketsDir, createHash("sha256").update(replicaId).digest("hex").slice(0, 16));
  return Buffer.byteLength(path) <= socketPathBytesMax ? path : null;
}

/**
 * Makes a hard link at `to`, where the app cannot replace it, to the socket that a sandboxed app
 * has made in its folder `listen`; keeps an existing link. Returns null when `to` is a socket, and
 * otherwise the problem: the app has made nothing there, or something else. A symbolic link is
 * refused, since it could lead the platform to any socket of the machine; a folder, or a file with
 * too many hard links, cannot be linked. Never throws.
 */
export function takeSocket(paths: ReplicaPaths, to: string): string | null {
  try {
    if (isSocket(to)) return null;
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
    rmSync(to, { force: true });
    linkSync(join(paths.listen, listenName), to);
    if (isSocket(to)) return null;
    // What the app has made is linked now, and is no socket.
    rmSync(to, { force: true });
  } catch (error) {
    if (errorCode(error) !== "ENOENT")
      return `the runtime's socket cannot be used (${errorCode(error)})`;
  }
  return "the runtime made no socket";
}

function isSocket(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSocket() === true;
}

/** Reads the record; null when the folder has none that is complete. */
export function readRecord(paths: ReplicaPaths): ReplicaRecord | null {
  const value = readJson(paths.record);
  return value?.["version"] === 1 ? (value as ReplicaRecord) : null;
}

/** Reads how the replica exited; null until that was reported. */
export function readEnded(paths: ReplicaPaths): EndedRecord | null {
  return readJson(paths.ended) as EndedRecord | null;
}

/** Reads the shell's output so far. */
export function readState(paths: ReplicaPaths): StateFile {
  // What follows the last newline is not complete yet, or empty.
  const lines = readBegin(paths.state).split("\n").slice(0, -1);
  const exit = lines
    .map((line) => /^exit (\d+)$/.exec(line)?.[1])
    .find((code) => code !== undefined);
  return {
    isRunning: lines.includes("running"),
    exitCode: exit === undefined ? null : Number(exit),
    complaints: lines.filter((line) => !/^(running|exit \d+)$/.test(line)).join(" "),
  };
}

/**
 * When the shell reported the app's exit, in milliseconds since the epoch; null when it did not.
 */
export function readExitTime(paths: ReplicaPaths): number | null {
  if (readState(paths).exitCode === null) return null;
  // The exit is the last thing that the shell writes to this file.
  const writtenAtMs = statSync(paths.state, { throwIfNoEntry: false })?.mtimeMs;
  return writtenAtMs === undefined ? null : Math.floor(writtenAtMs);
}

/** Reads the runtime's report. The app could write to that file too, so nothing is trusted. */
export function readReport(paths: ReplicaPaths): RuntimeReport {
  const text = readBegin(paths.ready);
  const lines = text.split("\n").slice(0, -1);
  if (lines.length === 0 && Buffer.byteLength(text) >= textBytesMax)
    return { error: "the runtime's report is too long", isLast: true };
  let report: RuntimeReport = { isLast: false };
  // What the later line says replaces what the earlier one says.
  for (const line of lines.slice(0, reportLinesMax)) report = { ...report, ...reportOf(line) };
  return report;
}

function reportOf(line: string): RuntimeReport {
  try {
    const value = JSON.parse(line) as {
      listening?: unknown;
      ready?: unknown;
      port?: unknown;
      error?: unknown;
    };
    if (value.ready !== true && value.listening !== true) {
      const error = typeof value.error === "string" ? value.error : "";
      return { error: error.slice(0, errorCharactersMax), isLast: true };
    }
    const port = Number(value.port);
    const isUsable = Number.isInteger(port) && port >= 0 && port < 65_536;
    if (!isUsable) return { error: "the runtime named no usable port", isLast: true };
    return { port, isLast: value.ready === true };
  } catch {
    return { error: "the runtime's report cannot be read", isLast: true };
  }
}

/** The runtime writes one line when it listens, and one when it is ready. */
const reportLinesMax = 2;
/** How much of the runtime's error message is kept. */
const errorCharactersMax = 1000;

/** Reads the shell's identity; null until the shell has started. */
export function readPid(paths: ReplicaPaths): ProcessIdentity | null {
  const text = readBegin(paths.pid);
  if (!text.endsWith("\n")) return null;
  const identity = parseStat(text);
  if (identity !== null) return identity;
  // Without /proc the shell can report only its process id, which is also the id of its group.
  const pid = Number(text.trim());
  return Number.isInteger(pid) && pid > 1 ? { pid, group: pid, startTicks: null } : null;
}

/** Parses a line of /proc/<pid>/stat; the name in parentheses may contain anything. */
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
  // The manual proc(5) numbers the fields of the line from 1: `state` is field 3 there, and
  // `startTicks` field 22, so index 19 here.
  const [state, parent, group] = fields;
  const startTicks = fields[19];
  // Process 1 is never one of ours; the comparison is also false for NaN.
  if (state === undefined || startTicks === undefined || !(pid > 1)) return null;
  return { pid, group: Number(group), startTicks, state, parent: Number(parent) };
}

/**
 * Claims the start in place of the shell, so that what a dead platform began to start never starts.
 * Returns false when the shell was first.
 */
export function giveUpStart(paths: ReplicaPaths): boolean {
  try {
    closeSync(openSync(paths.pid, "wx", 0o600));
    return true;
  } catch (error) {
    // Either the shell has created the file, or an earlier call of this function has, which left
    // the file empty.
    if (errorCode(error) === "EEXIST") return readBegin(paths.pid) === "";
    throw error;
  }
}

/**
 * Removes all files of an exited replica. The record is removed before the rest of the folder: if
 * the platform is killed in between, the rest does not look like a replica.
 */
export async function removeReplica(paths: ReplicaPaths): Promise<void> {
  const socket = readRecord(paths)?.socket;
  if (typeof socket === "string") await rm(socket, { force: true });
  await rm(paths.record, { force: true });
  await removeFolder(paths.dir);
}

/**
 * Returns the result of `open`. If permission is missing, restores it and calls `open` again: apps
 * that run as the platform's own user can take its permission to read the files they write to.
 */
export function withRightToRead<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (errorCode(error) !== "EACCES") throw error;
    chmodSync(path, 0o600);
    return open();
  }
}

/**
 * How much of a file is read. The shell and the runtime write far less, but an app could make
 * `ready` arbitrarily large.
 */
const textBytesMax = 65_536;
const textBuffer = Buffer.allocUnsafe(textBytesMax);

/** Whether a text of `readBegin` is the whole file. */
export function isWhole(text: string): boolean {
  return Buffer.byteLength(text) < textBytesMax;
}

/** Reads at most the first 64 KiB of a file; returns an empty text when there is no file. */
export function readBegin(path: string): string {
  let file: number;
  try {
    file = withRightToRead(path, () => openSync(path, "r"));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return "";
    throw error;
  }
  try {
    return textBuffer.toString("utf8", 0, readSync(file, textBuffer, 0, textBytesMax, 0));
  } finally {
    closeSync(file);
  }
}
