// What processes have used, as the kernel counts it: CPU time and memory.
import { readdirSync, readFileSync } from "node:fs";
import { processStat, type ProcessStat } from "#process-stat.ts";

/**
 * CPU seconds of a process and its descendants that are running or were waited for. Reads each
 * process once: it is called in measurements.
 */
export function cpuSecondsOf(pid: number): number {
  const stats = new Map<number, ProcessStat>();
  for (const name of readdirSync("/proc")) {
    const stat = /^\d+$/.test(name) ? processStat(Number(name)) : null;
    if (stat !== null) stats.set(Number(name), stat);
  }
  const isBelow = (one: number | undefined): boolean =>
    one !== undefined && (one === pid || isBelow(stats.get(one)?.parent));
  return [...stats].reduce((sum, [one, { seconds }]) => sum + (isBelow(one) ? seconds : 0), 0);
}

/** CPU seconds of a process alone. */
export function ownCpuSecondsOf(pid: number): number {
  return processStat(pid)?.ownSeconds ?? 0;
}

/** CPU seconds of children of a process that have ended and were waited for. */
export function endedCpuSecondsOf(pid: number): number {
  const own = processStat(pid);
  return own === null ? 0 : own.seconds - own.ownSeconds;
}

/** The largest memory that a process has had, in bytes. */
export function peakBytesOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) * 1024;
}
