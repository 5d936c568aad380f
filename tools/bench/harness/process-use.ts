// What processes have used, as the kernel counts it: CPU time and memory.
import { readdirSync, readFileSync } from "node:fs";

/** Ticks per second of the kernel's CPU accounting; 100 on all common systems. */
const ticksPerSecond = 100;

/**
 * CPU seconds of a process and its descendants that are running or were waited for. Reads each
 * process once: it is called in measurements.
 */
export function cpuSecondsOf(pid: number): number {
  const stats = new Map<number, Stat>();
  for (const name of readdirSync("/proc")) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : null;
    if (stat !== null) stats.set(Number(name), stat);
  }
  const isBelow = (one: number | undefined): boolean =>
    one !== undefined && (one === pid || isBelow(stats.get(one)?.parent));
  return [...stats].reduce((sum, [one, { seconds }]) => sum + (isBelow(one) ? seconds : 0), 0);
}

/** CPU seconds of a process alone. */
export function ownCpuSecondsOf(pid: number): number {
  return statOf(pid)?.ownSeconds ?? 0;
}

/** CPU seconds of children of a process that have ended and were waited for. */
export function endedCpuSecondsOf(pid: number): number {
  const own = statOf(pid);
  return own === null ? 0 : own.seconds - own.ownSeconds;
}

/** The largest memory that a process has had, in bytes. */
export function peakBytesOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) * 1024;
}

type Stat = { readonly parent: number; readonly seconds: number; readonly ownSeconds: number };

function statOf(pid: number): Stat | null {
  try {
    // After the name, which is in parentheses: state, parent, …; user and system time are fields 14
    // and 15, those of waited-for children 16 and 17.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /, "")
      .split(" ");
    const seconds = (...indexes: number[]): number =>
      indexes.reduce((sum, index) => sum + Number(fields[index]), 0) / ticksPerSecond;
    return {
      parent: Number(fields[1]),
      seconds: seconds(11, 12, 13, 14),
      ownSeconds: seconds(11, 12),
    };
  } catch {
    // It has exited in the meantime.
    return null;
  }
}
