// The machine's processes as the process driver needs them: is this still the one we started, which is its first child,
// what runs besides. Linux has /proc; elsewhere only the process id is looked at.
import { readdirSync, readFileSync } from "node:fs";
import { sinceBootMs } from "#lib/clock.ts";
import { readText } from "./read-text.ts";
import { parseStat, type ProcessIdentity } from "./replica-files.ts";

const hasProc = process.platform === "linux";
/** Of times in /proc, on every Linux. */
export const tickMs = 10;

/** True while the process runs; one that has ended and only waits to be reaped does not. */
export function isAlive(identity: ProcessIdentity): boolean {
  if (!hasProc || identity.startTicks === null) return signal(identity.pid, 0);
  const found = parseStat(readText(`/proc/${identity.pid}/stat`));
  return found !== null && found.startTicks === identity.startTicks && !/[ZX]/.test(found.state);
}

/** How long it has run, counted by the kernel since the machine was started, whatever the clock did; undefined: not known here. */
export function ranMs({ startTicks }: ProcessIdentity): number | undefined {
  const startMs = Number(startTicks) * tickMs;
  if (!hasProc || !(startMs > 0)) return undefined;
  return Math.max(0, sinceBootMs() - startMs);
}

/** The oldest child of a process that is alive: of a replica's shell, the app. Null when it has none, or without /proc. */
export function firstChild(pid: number): number | null {
  const children = readText(`/proc/${pid}/task/${pid}/children`);
  const first = Number.parseInt(children, 10);
  return Number.isNaN(first) ? null : first;
}

/** Of all processes, by the process that they are children of. */
export function childrenByParent(): ReadonlyMap<number, readonly number[]> {
  const children = new Map<number, number[]>();
  for (const one of listProcesses()) {
    const parent = parseStat(readText(`/proc/${one}/stat`))?.parent;
    if (parent === undefined) continue;
    const known = children.get(parent);
    if (known === undefined) children.set(parent, [one]);
    else known.push(one);
  }
  return children;
}

/** The process and all that descend from it, but for those whose parent has ended. `children`: as looked up for several. */
export function withDescendants(pid: number, children = childrenByParent()): number[] {
  const found = [pid];
  for (const one of found) found.push(...(children.get(one) ?? []));
  return found;
}

/** Sends a signal (0: only asks); negative ids are groups. False when there is no such process any more. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ESRCH") return false;
    // It runs as somebody else, so it is there.
    if (code === "EPERM") return true;
    throw error;
  }
}

/** What of a process tells whose it is. */
export type ProcessFacts = {
  readonly startTicks: string;
  readonly group: number;
  /** It has ended and only waits to be reaped. */
  readonly isDead: boolean;
  /** A thread of the kernel. */
  readonly isKernels: boolean;
  /**
   * `NAME=value` each, as its program was given them; `refused` when it is somebody else's. `unknown` while the process
   * is between two programs, or ends: then the kernel shows none.
   */
  readonly environment: readonly string[] | "refused" | "unknown";
};

/** The ids of all processes but the first one of all, the newest first as a rule. Linux only: empty elsewhere. */
export function listProcesses(): number[] {
  if (!hasProc) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid > 1)
    .reverse();
}

/** Null when there is no such process any more. */
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

/** Fields of /proc/<pid>/stat after the name, as proc(5) numbers them less 3. */
const flagsField = 6;
const environmentStartField = 47;
const environmentEndField = 48;
/** PF_KTHREAD of the kernel. */
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
  // The end is set last when a program begins; where it is and is the start too, the program was given no variables.
  const end = fields[environmentEndField] ?? "0";
  return end !== "0" && end === fields[environmentStartField] ? [] : "unknown";
}

/** Differs after each start of the machine; empty where that cannot be known. */
export const bootId = readText("/proc/sys/kernel/random/boot_id").trim();

/** How many processes the kernel has killed for want of memory since the machine started. */
export function memoryKills(): number {
  return Number(/^oom_kill (\d+)$/m.exec(readText("/proc/vmstat"))?.[1] ?? 0);
}
