// The cgroup of one replica or build. It is created with limits, and the first process enters it
// before any foreign code runs. Its files show whether the kernel has killed a process in it for
// lack of memory. It is removed when it is empty.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";
import { shellQuoted } from "#lib/shell-quoted.ts";
import { readText } from "./read-text.ts";

export type Controller = "memory" | "cpu" | "pids";

/** A folder of the cgroup file system and the controller used there. */
export type CgroupParent = {
  readonly controller: Controller;
  /** The version of the kernel's interface to cgroups that the folder has. */
  readonly version: 1 | 2;
  readonly folder: string;
};

/**
 * One cgroup: for each controller, the cgroup's own folder (not the parent's). It is stored in the
 * replica's record, since a later process of the platform may create cgroups elsewhere.
 */
export type Cgroup = readonly CgroupParent[];

export type CgroupLimits = {
  readonly memoryBytes: number;
  /** Null: no limit, but while others need the cores, only half the usual share. */
  readonly cpuCores: number | null;
  /** The maximum number of processes and threads. */
  readonly tasksMax: number;
  /** False: when the kernel kills a process for lack of memory, it spares the others. */
  readonly endsTogether?: false;
};

/**
 * The limits of one build, or of one step of an image build. It may use half of the machine's
 * memory, since pip needs a few GB for the largest packages, and compilers run one process per
 * core. The maximum number of tasks stops a fork bomb.
 */
export const buildLimits: CgroupLimits = {
  memoryBytes: Math.round(totalmem() / 2),
  cpuCores: null,
  tasksMax: 4096,
};

/** The command to spawn. */
type Command = {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

/**
 * The kernel measures the use of the processor in periods of this length, its default. A limited
 * cgroup may use its share of the processor once in each.
 */
const periodMicros = 100_000;
/** The kernel refuses a smaller share of the period. */
const quotaMicrosMin = 1000;
/**
 * The weight of cgroups without a limit of cores, by version: half the usual one, which is 1024 in
 * version 1 and 100 in version 2.
 */
const lowWeight = { 1: "512", 2: "50" } as const;
/** In version 1, a peak use of at least this share of the limit counts as a hit of the limit. */
const nearShare = 0.98;
/**
 * The highest score: the kernel kills apps and builds first when the machine runs out of memory.
 */
const oomScore = 1000;
/** The niceness of programs without a limited share of the processor. */
const niceness = 5;

/** The location of the cgroup with this name, whether it exists or not. */
export function groupAt(parents: readonly CgroupParent[], name: string): Cgroup {
  return parents.map((parent) => ({ ...parent, folder: join(parent.folder, name) }));
}

/**
 * Creates the cgroup's folder below each parent. When one of them cannot be created, throws and
 * leaves nothing behind.
 */
export function makeGroup(
  parents: readonly CgroupParent[],
  name: string,
  limits: CgroupLimits,
): Cgroup {
  const group = groupAt(parents, name);
  try {
    for (const { folder } of group) mkdirSync(folder, { recursive: true });
    limitGroup(group, limits);
    return group;
  } catch (error) {
    removeGroup(group);
    throw error;
  }
}

/** Sets the limits of a cgroup that exists. */
export function limitGroup(group: Cgroup, limits: CgroupLimits): void {
  for (const parent of group) {
    for (const [name, value, isNeeded] of settingsOf(parent, limits)) {
      const file = join(parent.folder, name);
      if (isNeeded || existsSync(file)) writeFileSync(file, value);
    }
  }
}

/** One file and the value to write; `isNeeded` is false for a file that some kernels lack. */
type GroupSetting = readonly [file: string, value: string, isNeeded: boolean];

/**
 * The settings in the order in which they are written: the kernel refuses a limit for memory plus
 * swap (`memsw`) below the memory limit, so a new cgroup gets the memory limit first.
 */
function settingsOf(
  { controller, version }: CgroupParent,
  limits: CgroupLimits,
): readonly GroupSetting[] {
  const { cpuCores, tasksMax } = limits;
  const memory = String(limits.memoryBytes);
  if (controller === "pids") return [["pids.max", String(tasksMax), true]];
  if (controller === "cpu") {
    if (cpuCores === null)
      return [[version === 2 ? "cpu.weight" : "cpu.shares", lowWeight[version], true]];
    const micros = Math.max(quotaMicrosMin, Math.round(cpuCores * periodMicros));
    if (version === 2) return [["cpu.max", `${micros} ${periodMicros}`, true]];
    return [
      ["cpu.cfs_period_us", String(periodMicros), true],
      ["cpu.cfs_quota_us", String(micros), true],
    ];
  }
  if (version === 1) {
    return [
      ["memory.limit_in_bytes", memory, true],
      ["memory.memsw.limit_in_bytes", memory, false],
    ];
  }
  return [
    ["memory.max", memory, true],
    ["memory.swap.max", "0", false],
    // Kill the whole group: an app that continues without its workers is useless.
    ["memory.oom.group", limits.endsTogether === false ? "0" : "1", false],
  ];
}

/**
 * The command that enters the cgroup, becomes the kernel's first choice to kill, and executes
 * `command`. The second `sh` is the script's `$0`; the words after it are its `"$@"`.
 */
export function entering(group: Cgroup, { file, args, environment }: Command): Command {
  const script = `${enterLines(group)}exec ${niceWords(group)}"$@"`;
  return { file: "/bin/sh", args: ["-c", script, "sh", file, ...args], environment };
}

/**
 * Lines of a shell that enters the cgroup and becomes the kernel's first choice to kill. The 0
 * stands for the process that writes it; 125 is `sandboxFailedCode`. A program runs as well without
 * the score, so errors of that line are ignored.
 */
export function enterLines(group: Cgroup): string {
  const lines = filesOf(group).map((file) => `echo 0 >${shellQuoted(file)} || exit 125\n`);
  return `${lines.join("")}{ echo ${oomScore} >/proc/self/oom_score_adj; } 2>/dev/null\n`;
}

/**
 * The files through which a process enters the cgroup. With `tasks` a task moves alone and at once;
 * version 2 has only `cgroup.procs`, with which the move takes some 10 ms. In version 2 all
 * controllers have one folder, so the set has each file only once.
 */
export function filesOf(group: Cgroup): string[] {
  const files = group.map(({ folder, version }) =>
    join(folder, version === 1 ? "tasks" : "cgroup.procs"),
  );
  return [...new Set(files)];
}

/** Moves a process, but none of its children, into the cgroup; does nothing if it has ended. */
export async function enter(group: Cgroup, pid: number): Promise<void> {
  const results = await Promise.allSettled(
    filesOf(group).map((file) => writeFile(file, String(pid))),
  );
  const failed = results.find(
    (result) =>
      result.status === "rejected" && (result.reason as NodeJS.ErrnoException).code !== "ESRCH",
  );
  if (failed?.status === "rejected") throw failed.reason;
}

/**
 * The words that come before a program in the cgroup: `nice`, unless the cgroup limits the
 * program's share of the processor.
 */
export function niceWords(group: Cgroup): string {
  return group.some(({ controller }) => controller === "cpu") ? "" : `nice -n ${niceness} `;
}

/**
 * What ran out of memory: `own` when the kernel killed a process of the cgroup at the cgroup's
 * limit; `machine` when it killed one because the machine had no memory left; `no` when it has
 * killed none.
 */
export function memoryKilled(group: Cgroup): "no" | "own" | "machine" {
  const memory = group.find(({ controller }) => controller === "memory");
  if (memory === undefined) return "no";
  const eventsFile = memory.version === 2 ? "memory.events" : "memory.oom_control";
  const text = readText(join(memory.folder, eventsFile));
  const count = (name: string): number =>
    Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
  if (count("oom_kill") === 0) return "no";
  const bytes = (name: string): number => Number(readText(join(memory.folder, name)));
  // Version 1 does not count hits of the limit; after a hit the peak usage is just below it. In
  // version 2 these two files are missing, and `wasNear` is not used.
  const wasNear = bytes("memory.max_usage_in_bytes") >= bytes("memory.limit_in_bytes") * nearShare;
  const isOwn = memory.version === 2 ? count("oom") > 0 : wasNear;
  return isOwn ? "own" : "machine";
}

/**
 * Removes the cgroup, if it still exists. While processes run in it (EBUSY), it stays, and the next
 * start of the platform removes it.
 */
export function removeGroup(group: Cgroup): void {
  for (const folder of new Set(group.map(({ folder }) => folder))) {
    try {
      rmdirSync(folder);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "EBUSY" && code !== "ENOENT") throw error;
    }
  }
}

/** Names of the cgroups below a parent. */
export function groupNames({ folder }: CgroupParent): readonly string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** Throws unless a process can enter a cgroup with limits below these parents. */
export function enterable(parents: readonly CgroupParent[]): void {
  // The values do not matter, as long as a short program stays within them.
  const group = makeGroup(parents, "probe", {
    memoryBytes: 100_000_000,
    cpuCores: 1,
    tasksMax: 100,
  });
  try {
    const { file, args } = entering(group, { file: "true", args: [], environment: {} });
    execFileSync(file, args, { stdio: "ignore", timeout: 10_000 });
  } finally {
    removeGroup(group);
  }
}
