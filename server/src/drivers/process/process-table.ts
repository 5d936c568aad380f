// The process driver's view of the machine's processes: whether one is still the process that we
// started, its first child, and what else runs. On Linux it reads /proc; elsewhere it checks only
// the process id.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { sinceBootMs } from "#lib/clock.ts";
import type { Cgroup } from "./cgroup.ts";
import { readText } from "./read-text.ts";
import { parseStat, type ProcessIdentity, type ReplicaRecord } from "./replica-files.ts";

const hasProc = process.platform === "linux";
/** The length of a clock tick in the times of /proc, on every Linux. */
export const tickMs = 10;

/** True while the process runs; false for a zombie (state Z) and for a dead process (X). */
export function isAlive(identity: ProcessIdentity): boolean {
  if (!hasProc || identity.startTicks === null) return signal(identity.pid, 0);
  const stat = parseStat(readText(`/proc/${identity.pid}/stat`));
  return stat !== null && stat.startTicks === identity.startTicks && !/[ZX]/.test(stat.state);
}

/** The identity of a process; null when it has ended. */
export function identityOf(pid: number): ProcessIdentity | null {
  const stat = parseStat(readText(`/proc/${pid}/stat`));
  return stat === null ? null : { pid, group: stat.group, startTicks: stat.startTicks };
}

/**
 * How long a replica has run, according to the kernel and independent of clock changes; undefined
 * when unknown here.
 */
export function ranMs(
  { startTicks }: Pick<ProcessIdentity, "startTicks">,
  { startedBootMs }: Pick<ReplicaRecord, "startedBootMs">,
): number | undefined {
  // Without `startedBootMs`, in the record of an older version, the start of the shell counts.
  const startMs = startedBootMs ?? Number(startTicks) * tickMs;
  // This is also true for NaN.
  const isUnknown = !(startMs > 0);
  if (!hasProc || isUnknown) return undefined;
  return Math.max(0, sinceBootMs() - startMs);
}

/**
 * The oldest child of a live process: for a replica's shell, the app. Null when it has none, or
 * without /proc.
 */
export function firstChild(pid: number): number | null {
  const children = readText(`/proc/${pid}/task/${pid}/children`);
  const first = Number.parseInt(children, 10);
  return Number.isNaN(first) ? null : first;
}

/** Children of all processes, by parent. */
export function childrenByParent(): ReadonlyMap<number, readonly number[]> {
  const children = new Map<number, number[]>();
  for (const pid of listProcesses()) {
    const parent = parseStat(readText(`/proc/${pid}/stat`))?.parent;
    if (parent !== undefined) getOrInsert(children, parent, () => []).push(pid);
  }
  return children;
}

/**
 * The process and its descendants, except those whose parent has exited. `children`: a shared
 * lookup for several calls.
 */
export function withDescendants(pid: number, children = childrenByParent()): number[] {
  const members = [pid];
  // The loop also reaches the members that it adds.
  for (const member of members) members.push(...(children.get(member) ?? []));
  return members;
}

/** Sends a signal (0: only checks); negative ids are groups. False when the process is gone. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ESRCH") return false;
    // The process exists, but runs as another user.
    if (code === "EPERM") return true;
    throw error;
  }
}

/** The result of `read`, which reads files of a process; empty when the process has exited. */
export function unlessExited<Found>(read: () => readonly Found[]): readonly Found[] {
  try {
    return read();
  } catch {
    return [];
  }
}

/** The facts that show whether a process belongs to a replica or build. */
export type ProcessFacts = {
  readonly startTicks: string;
  readonly group: number;
  /** True for a zombie: the process has ended, but its parent has not collected its status. */
  readonly isDead: boolean;
  /** True for a thread of the kernel. */
  readonly isKernels: boolean;
  /**
   * The variables `NAME=value` that its program was given; `refused` when the process belongs to
   * another user; `unknown` during exec or exit, when the kernel shows none.
   */
  readonly environment: readonly string[] | "refused" | "unknown";
};

/** The ids of all processes except process 1, usually newest first. Linux only: empty elsewhere. */
export function listProcesses(): number[] {
  if (!hasProc) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid > 1)
    .reverse();
}

/** Null when the process is gone. */
export function readProcess(pid: number): ProcessFacts | null {
  const text = readText(`/proc/${pid}/stat`);
  const stat = parseStat(text);
  if (stat === null || stat.startTicks === null) return null;
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const { startTicks, group, state } = stat;
  const isKernels = (Number(fields[flagsField]) & kernelThreadFlag) !== 0;
  const isDead = /[ZX]/.test(state);
  const environment = isKernels || isDead ? "unknown" : readEnvironment(pid, fields);
  return { startTicks, group, isDead, isKernels, environment };
}

/**
 * Indexes into the fields of /proc/<pid>/stat that follow the name in parentheses. The manual
 * proc(5) counts from 1 and from the beginning of the line: its number is larger by 3.
 */
const flagsField = 6;
const environmentStartField = 47;
const environmentEndField = 48;
/** The flag of kernel threads, PF_KTHREAD in the kernel. */
const kernelThreadFlag = 0x0020_0000;

function readEnvironment(pid: number, fields: readonly string[]): ProcessFacts["environment"] {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/environ`, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EACCES" || code === "EPERM" ? "refused" : "unknown";
  }
  if (text !== "") return text.split("\0");
  // Exec sets the end of the environment last. If the end is set and equals the start, the program
  // has no variables.
  const end = fields[environmentEndField] ?? "0";
  return end !== "0" && end === fields[environmentStartField] ? [] : "unknown";
}

/** Changes with each boot of the machine; empty where unknown. */
export const bootId = readText("/proc/sys/kernel/random/boot_id").trim();

/** How many processes the kernel has killed because of memory shortage since boot. */
export function memoryKills(): number {
  return Number(/^oom_kill (\d+)$/m.exec(readText("/proc/vmstat"))?.[1] ?? 0);
}

/** The processes in the cgroup; without one, all of the machine. */
export function processesIn([first]: Cgroup): readonly number[] {
  if (first === undefined) return listProcesses();
  // The folders of all controllers have the same processes.
  const ids = readText(join(first.folder, "cgroup.procs")).split("\n");
  return ids.filter(Boolean).map(Number);
}
