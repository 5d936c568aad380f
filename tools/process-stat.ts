// The processor time of processes, as the kernel counts it.
import { readFileSync } from "node:fs";

/** Ticks per second of the kernel's CPU accounting; 100 on all common systems. */
const ticksPerSecond = 100;

/** Times are in seconds of one processor. */
export type ProcessStat = {
  readonly parent: number;
  /** The processor time of the process and of its children that have ended and were waited for. */
  readonly seconds: number;
  readonly ownSeconds: number;
};

/** Null: the process has exited, or this system has no /proc. */
export function processStat(pid: number): ProcessStat | null {
  try {
    // After the name, which is in parentheses: state, parent, …; user and system time are fields 14
    // and 15, those of waited-for children 16 and 17.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /s, "")
      .split(" ");
    const seconds = (...indexes: number[]): number =>
      indexes.reduce((sum, index) => sum + Number(fields[index]), 0) / ticksPerSecond;
    return {
      parent: Number(fields[1]),
      seconds: seconds(11, 12, 13, 14),
      ownSeconds: seconds(11, 12),
    };
  } catch {
    return null;
  }
}
