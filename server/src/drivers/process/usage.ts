// What replicas use of the machine, added up over the processes of each. Linux only: empty elsewhere.
import type { ReplicaUsage } from "#drivers/driver.ts";
import { listProcesses } from "./process-table.ts";
import { readText } from "./read-text.ts";
import { parseStat } from "./replica-files.ts";

type Measured = { readonly parent: number; readonly cpuSeconds: number; readonly memoryBytes: number };

/** Of times in /proc, on every Linux. */
const ticksPerSecond = 100;
/** Of the fields of /proc/<pid>/stat that follow the name: own time in user and kernel mode, and that of ended children. */
const timeFields = [11, 12, 13, 14];
const pageBytes = 4096;

/** Of each first process that is given, with all that descend from it. One look at the machine's processes serves them all. */
export function usageOf<Key>(firstPids: ReadonlyMap<Key, number>): Map<Key, ReplicaUsage> {
  const children = new Map<number, Measured[]>();
  const byPid = new Map<number, Measured>();
  for (const pid of firstPids.size === 0 ? [] : listProcesses()) {
    const found = measured(pid);
    if (found === null) continue;
    byPid.set(pid, found);
    children.set(found.parent, [...(children.get(found.parent) ?? []), { ...found, parent: pid }]);
  }
  const usage = new Map<Key, ReplicaUsage>();
  for (const [key, pid] of firstPids) {
    const first = byPid.get(pid);
    if (first === undefined) continue;
    const all = [{ ...first, parent: pid }];
    for (const one of all) all.push(...(children.get(one.parent) ?? []));
    usage.set(key, {
      cpuSeconds: all.reduce((sum, one) => sum + one.cpuSeconds, 0),
      memoryBytes: all.reduce((sum, one) => sum + one.memoryBytes, 0),
    });
  }
  return usage;
}

function measured(pid: number): Measured | null {
  const text = readText(`/proc/${pid}/stat`);
  const parent = parseStat(text)?.parent;
  if (parent === undefined) return null;
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ticks = timeFields.reduce((sum, field) => sum + Number(fields[field] ?? 0), 0);
  // Pages of files can be read again: they are not what memory runs out for.
  const [, resident = 0, ofFiles = 0] = readText(`/proc/${pid}/statm`).split(" ").map(Number);
  return { parent, cpuSeconds: ticks / ticksPerSecond, memoryBytes: Math.max(0, resident - ofFiles) * pageBytes };
}
