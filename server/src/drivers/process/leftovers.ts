// Ends the processes that a program without a sandbox leaves behind after its first process exits.
// They may have moved to other groups and sessions, so a marker in their environment identifies
// them. Used for replicas and builds. It scans repeatedly: a process shows no environment during
// exec, so one scan that finds nothing proves nothing.
import type { Clock } from "#lib/clock.ts";
import { listProcesses, readProcess, signal, type ProcessFacts } from "./process-table.ts";

export type LeftoversOptions = {
  /**
   * The marker `NAME=value` that all processes that belong together have in their environment, or a
   * function that is true for each of several markers.
   */
  readonly marker: string | ((variable: string) => boolean);
  /**
   * The process group of the first process; null when another group may have that number by now.
   */
  readonly group: number | null;
  /**
   * The start time of the first process: no older process is a leftover. Null when unknown.
   */
  readonly sinceTicks: string | null;
};

/** Access to the machine's processes. */
export type ProcessTable = {
  list(): readonly number[];
  /** Null when the process is gone. */
  read(pid: number): ProcessFacts | null;
  /** A negative id is a group. */
  kill(pid: number): void;
  /** Asks a process to end, by SIGTERM. */
  ask(pid: number): void;
};

/**
 * `gone`: no process is left. `again`: the scan killed a process, or is not sure yet; scan again
 * soon. `lost`: the time for killing is over, and processes are left.
 */
export type SweepResult = "gone" | "again" | "lost";

/**
 * Timeout for killing programs that start processes faster than they die; only a sandbox stops such
 * programs.
 */
const sweepMsMax = 10_000;
/**
 * How long processes in exec may delay the result `gone`: on a machine that constantly starts
 * processes, every scan may meet one in exec. Exec takes far less time than this.
 */
const changingMsMax = 2000;
/**
 * How long processes that have ended may delay the result `gone`. A program that forks and exits
 * between one scan and the next for all this time does so on purpose; only a sandbox stops it.
 */
const endedMsMax = 300;
/** The shortest wait between two scans; exec takes far less time. */
const againMs = 5;
/**
 * The maximum share of the time that scans take. Their thread also serves calls, and a stranger can
 * have many processes.
 */
const scanShare = 0.2;

const thisMachine: ProcessTable = {
  list: listProcesses,
  read: readProcess,
  kill: (pid) => void signal(pid, "SIGKILL"),
  ask: (pid) => void signal(pid, "SIGTERM"),
};

/** The number of calls of `endMarked` under way, which together keep to `scanShare`. */
let endings = 0;

/**
 * Kills all processes with the marker among those that `list` returns. Resolves with true when they
 * are gone, or with false after the timeout.
 */
export async function endMarked(
  marker: LeftoversOptions["marker"],
  clock: Clock,
  list: ProcessTable["list"] = listProcesses,
): Promise<boolean> {
  const leftovers = new Leftovers(
    { marker, group: null, sinceTicks: null },
    { ...thisMachine, list },
  );
  endings++;
  try {
    for (;;) {
      const beganMs = clock.monotonicMs();
      const result = leftovers.sweep(beganMs);
      if (result !== "again") return result === "gone";
      const tookMs = clock.monotonicMs() - beganMs;
      await clock.sleep(Math.max(againMs, (endings * tookMs) / scanShare));
    }
  } finally {
    endings--;
  }
}

/** The scans for what one replica or build has left behind. */
export class Leftovers {
  readonly #options: LeftoversOptions;
  readonly #table: ProcessTable;
  readonly #known: Known = { ours: new Set(), others: new Set(), dead: new Set() };
  /** The processes that were asked to end, by process id and start time. */
  readonly #askedToEnd = new Set<string>();
  /** The time of the first scan; null before it. */
  #sinceMs: number | null = null;
  /** The time of the last scan that found a leftover; the first scan counts as if it had. */
  #lastSeenMs = 0;

  constructor(options: LeftoversOptions, table: ProcessTable = thisMachine) {
    this.#options = options;
    this.#table = table;
  }

  /**
   * Scans all processes, and asks each leftover to end, each only once. Returns false when none is
   * left.
   */
  ask(): boolean {
    let isAnyLeft = false;
    for (const pid of this.#table.list()) {
      const facts = this.#table.read(pid);
      if (facts === null) continue;
      const owner = ownerOf(pid, facts, { ...this.#options, known: this.#known });
      if (owner !== "ours") continue;
      isAnyLeft = true;
      const name = `${pid} ${facts.startTicks}`;
      if (this.#askedToEnd.has(name)) continue;
      this.#askedToEnd.add(name);
      this.#table.ask(pid);
    }
    return isAnyLeft;
  }

  /** Scans all processes once, and kills the leftovers. `nowMs` counts from any fixed point. */
  sweep(nowMs: number): SweepResult {
    const { group, ...options } = this.#options;
    // Only the first scan kills the group: the kernel may reuse the number of an empty group.
    const isFirst = this.#sinceMs === null;
    const killedGroup = isFirst ? group : null;
    if (killedGroup !== null) this.#table.kill(-killedGroup);
    this.#sinceMs ??= nowMs;
    const owners = this.#owners({ ...options, group: killedGroup, known: this.#known });
    if (isFirst || owners.has("ours")) this.#lastSeenMs = nowMs;
    if (owners.has("ours")) return nowMs - this.#sinceMs < sweepMsMax ? "again" : "lost";
    const unseenMs = nowMs - this.#lastSeenMs;
    if (owners.has("changing") && unseenMs < changingMsMax) return "again";
    return owners.has("ended") && unseenMs < endedMsMax ? "again" : "gone";
  }

  #owners(search: Search): ReadonlySet<Owner> {
    const owners = new Set<Owner>();
    for (const pid of this.#table.list()) {
      const owner = ownerOf(pid, this.#table.read(pid), search);
      if (owner === "ours") this.#table.kill(pid);
      owners.add(owner);
    }
    return owners;
  }
}

/**
 * `ours`: the process is a leftover. `changing`: it is in exec, so nobody can tell. `ended`: it may
 * have forked just before its end, and this scan may have missed its child.
 */
type Owner = "ours" | "other" | "changing" | "ended";

/**
 * Results of earlier scans: process ids with their start times. `others` also has the ids alone,
 * for a process that is gone before it can be read. `dead` has the processes that have ended but
 * are still listed: each counts as `ended` only in the first scan that finds it so.
 */
type Known = {
  readonly ours: Set<string>;
  readonly others: Set<string>;
  readonly dead: Set<string>;
};
type Search = LeftoversOptions & { readonly known: Known };

/** Returns the owner of a listed process and records it in `known`. */
function ownerOf(pid: number, facts: ProcessFacts | null, search: Search): Owner {
  const { known } = search;
  if (facts === null) return known.others.has(String(pid)) ? "other" : "ended";
  const name = `${pid} ${facts.startTicks}`;
  if (known.others.has(name) || known.dead.has(name)) return "other";
  if (facts.isDead) {
    known.dead.add(name);
    return isOlder(facts, search) ? "other" : "ended";
  }
  const owner = known.ours.has(name) ? "ours" : ownerOfLiving(facts, search);
  if (owner === "ours") known.ours.add(name);
  if (owner === "other") known.others.add(name).add(String(pid));
  return owner;
}

function ownerOfLiving(facts: ProcessFacts, search: Search): Owner {
  if (facts.isKernels || isOlder(facts, search)) return "other";
  if (facts.group === search.group) return "ours";
  const { environment } = facts;
  if (environment === "unknown") return "changing";
  // The process belongs to another user, so it could not be killed either.
  if (environment === "refused") return "other";
  const { marker } = search;
  const isOurs =
    typeof marker === "string" ? environment.includes(marker) : environment.some(marker);
  return isOurs ? "ours" : "other";
}

function isOlder(facts: ProcessFacts, { sinceTicks }: Search): boolean {
  return sinceTicks !== null && Number(facts.startTicks) < Number(sinceTicks);
}
