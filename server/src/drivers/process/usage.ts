// Sums up the resource usage of each replica over its processes. Linux only: empty elsewhere.
import type { ReplicaUsage } from "#drivers/driver.ts";
import { childrenByParent, tickMs, withDescendants } from "./process-table.ts";
import { readText } from "./read-text.ts";
import { parseStat } from "./replica-files.ts";

/**
 * Indexes into the fields of /proc/<pid>/stat after the name: the time of the process in user and
 * kernel mode, and the same two times of its exited children.
 */
const timeFields = [11, 12, 13, 14];

/**
 * The usage of each of these first processes, with its descendants. Scans the machine's processes
 * once for all. `hasNetwork`: each has a network of its own.
 */
export function usageOf<Key>(
  firstPids: ReadonlyMap<Key, number>,
  { hasNetwork }: { readonly hasNetwork: boolean },
): Map<Key, ReplicaUsage> {
  const usage = new Map<Key, ReplicaUsage>();
  if (firstPids.size === 0) return usage;
  const children = childrenByParent();
  for (const [key, pid] of firstPids) {
    if (processUsage(pid) === null) continue;
    const usages = withDescendants(pid, children).flatMap((member) => processUsage(member) ?? []);
    usage.set(key, {
      cpuSeconds: usages.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
      memoryBytes: usages.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
      ...(hasNetwork ? { network: trafficOf(readText(`/proc/${pid}/net/dev`)) } : {}),
    });
  }
  return usage;
}

/**
 * The traffic in the text of /proc/<pid>/net/dev. It has one line for each interface: the name
 * (field 0), eight numbers for received traffic, and eight for sent traffic. The first of each
 * eight (fields 1 and 9) counts bytes.
 */
function trafficOf(text: string): NonNullable<ReplicaUsage["network"]> {
  const lines = text.split("\n").map((line) => line.trim().split(/[:\s]+/));
  const outward = lines.filter(([name, bytes]) => name !== "lo" && /^\d+$/.test(bytes ?? ""));
  const sumOf = (field: number): number =>
    outward.reduce((sum, fields) => sum + Number(fields[field] ?? 0), 0);
  return { receivedBytes: sumOf(1), sentBytes: sumOf(9) };
}

/** The memory of one process, in bytes, without its descendants; null when it is gone. */
export function memoryOf(pid: number): number | null {
  return processUsage(pid)?.memoryBytes ?? null;
}

/** The usage of one process; null when it is gone. */
function processUsage(pid: number): ReplicaUsage | null {
  const text = readText(`/proc/${pid}/stat`);
  if (parseStat(text) === null) return null;
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ticks = timeFields.reduce((sum, field) => sum + Number(fields[field] ?? 0), 0);
  // Pages of files can be read again, so they do not exhaust memory.
  const anonymousKib = Number(
    /^RssAnon:\s+(\d+) kB$/m.exec(readText(`/proc/${pid}/status`))?.[1] ?? 0,
  );
  return { cpuSeconds: (ticks * tickMs) / 1000, memoryBytes: anonymousKib * 1024 };
}
