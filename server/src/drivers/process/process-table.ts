// The machine's processes as the process driver needs them: is this still the one we started, which is its first child,
// what has it left behind. Linux has /proc; elsewhere only the process id is looked at.
import { readdirSync, readFileSync } from "node:fs";
import { parseStat, type ProcessIdentity } from "./replica-files.ts";

const hasProc = process.platform === "linux";

/** True while the process runs; one that has ended and only waits to be reaped does not. */
export function isAlive(identity: ProcessIdentity): boolean {
  if (!hasProc || identity.startTicks === null) return signal(identity.pid, 0);
  const found = parseStat(readProc(`/proc/${identity.pid}/stat`));
  return found !== null && found.startTicks === identity.startTicks && !/[ZX]/.test(found.state);
}

/** The oldest child of a process that is alive: of a replica's shell, the app. Null when it has none, or without /proc. */
export function firstChild(pid: number): number | null {
  const children = readProc(`/proc/${pid}/task/${pid}/children`);
  const first = Number.parseInt(children, 10);
  return Number.isNaN(first) ? null : first;
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

/** Kills every process whose environment holds `marker` (`NAME=value`), again and again until there is none. Linux only. */
export function killMarked(marker: string): void {
  for (let round = 0; round < killRoundsMax; round++) {
    const found = marked(marker);
    if (found.length === 0) return;
    for (const pid of found) signal(pid, "SIGKILL");
  }
}

/** A process that forks faster than it is killed is given up on after these; a sandbox is what stops it for good. */
const killRoundsMax = 20;

function marked(marker: string): number[] {
  if (!hasProc) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => readProc(`/proc/${name}/environ`).split("\0").includes(marker))
    .map(Number);
}

/** Differs after each start of the machine; empty where that cannot be known. */
export const bootId = readProc("/proc/sys/kernel/random/boot_id").trim();

/** How many processes the kernel has killed for want of memory since the machine started. */
export function memoryKills(): number {
  return Number(/^oom_kill (\d+)$/m.exec(readProc("/proc/vmstat"))?.[1] ?? 0);
}

/** Empty when it cannot be read: the process is gone, or somebody else's. */
function readProc(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
