// The first process of a container, as the platform's machine sees it in /proc.
import { ranMs } from "#drivers/process/process-table.ts";
import { readText } from "#drivers/process/read-text.ts";
import { parseStat } from "#drivers/process/replica-files.ts";

/**
 * How long the container has run, as the kernel counts: the engine takes its times from a clock
 * that may step. Undefined when this is unknown: the process with this id is not seen here, or is
 * not the container's.
 */
export function containerRanMs(pid: number, containerId: string): number | undefined {
  // Every engine puts the container's id into the name of its control group.
  if (!readText(`/proc/${pid}/cgroup`).includes(containerId)) return undefined;
  // `{}`: no start time was stored for this process, so that the one in `stat` counts.
  const stat = parseStat(readText(`/proc/${pid}/stat`));
  return stat === null ? undefined : ranMs(stat, {});
}
