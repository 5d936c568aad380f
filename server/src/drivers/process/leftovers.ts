// Ends processes that programs without a sandbox leave behind after their first process exits: they
// moved to other groups and sessions, and a marker in their environment identifies them. Used for
// replicas and builds. It scans repeatedly: a process shows no environment during exec, so one scan
// that finds nothing proves nothing.
import type { Clock } from "#lib/clock.ts";
import { listProcesses, readProcess, signal, type ProcessFacts } from "./process-table.ts";

export type LeftoversOptions = {
  /**
   * `NAME=value` in the environment of all processes that belong together, or which of them is one
   * of several.
   */
  readonly marker: string | ((variable: string) => boolean);
  /**
   * The process group of the first process; null when another group may have that number by now.
   */
  readonly group: number | null;
  /** Start time of its first process: older processes do not belong to it. Null when unknown. */
  readonly sinceTicks: string | null;
};

/** Access to the machine's processes. */
export type ProcessTable = {
  list(): readonly number[];
  /** Null when the process is gone. */
  read(pid: number): ProcessFacts | null;
  /** A negative id is a group. */
  kill(pid: number): void;
  /** Sends SIGTERM. */
  ask(pid: number): void;
};

/**
 * `gone`: nothing is left. `again`: it killed something, or is not sure yet; scan again soon.
 * `lost`: timeout.
 */
export type SweepResult = "gone" | "again" | "lost";

/**
 * Timeout for killing programs that start processes faster than they die; only a sandbox stops
 * those.
 */
const sweepMsMax = 10_000;
/**
 * On a machine that constantly starts and ends processes no scan may ever be sure. Exec takes far
 * less time than this.
 */
const changingMsMax = 2000;
/**
 * A program that forks and exits between all scans of this time does so on purpose; only a sandbox
 * stops that.
 */
const endedMsMax = 300;
/** Between two scans; exec takes far less time. */
const againMs = 5;
/**
 * Scans take this part of the time at most, of a thread that serves calls: a stranger can have many
 * processes.
 */
const scanShare = 0.2;

const thisMachine: ProcessTable = {
  list: listProcesses,
  read: readProcess,
  kill: (pid) => void signal(pid, "SIGKILL"),
  ask: (pid) => void signal(pid, "SIGTERM"),
};

/** How many of `endMarked` are at work. */
let endings = 0;

/**
 * Kills all processes with the marker, of those that `list` lists. Resolves with true when they are
 * gone, or with false after the timeout.
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

/** The scans after one replica or build. */
export class Leftovers {
  readonly #options: LeftoversOptions;
  readonly #table: ProcessTable;
  readonly #known: Known = { ours: new Set(), others: new Set(), dead: new Set() };
  readonly #asked = new Set<string>();
  #sinceMs: number | null = null;
  #lastSeenMs = 0;

  constructor(options: LeftoversOptions, table: ProcessTable = thisMachine) {
    this.#options = options;
    this.#table = table;
  }

  /** Scans all processes once and asks each that is left to end, once; false: none is left. */
  ask(): boolean {
    let isAnyLeft = false;
    for (const pid of this.#table.list()) {
      const facts = this.#table.read(pid);
      if (
        facts === null ||
        ownerOf(pid, facts, { ...this.#options, known: this.#known }) !== "ours"
      )
        continue;
      isAnyLeft = true;
      const name = `${pid} ${facts.startTicks}`;
      if (this.#asked.has(name)) continue;
      this.#asked.add(name);
      this.#table.ask(pid);
    }
    return isAnyLeft;
  }

  /** Scans all processes once and kills what is left. `nowMs` counts from any fixed point. */
  sweep(nowMs: number): SweepResult {
    const { group, ...options } = this.#options;
    // Only the first time: the kernel may reuse the number of an empty group.
    const isFirst = this.#sinceMs === null;
    if (isFirst && group !== null) this.#table.kill(-group);
    this.#sinceMs ??= nowMs;
    const owners = this.#owners({ ...options, group: isFirst ? group : null, known: this.#known });
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
 * `changing`: during exec. `ended`: it may have forked just before, and this scan does not know the
 * child.
 */
type Owner = "ours" | "other" | "changing" | "ended";

/** Results of earlier scans: process ids with their start times, and for others also without. */
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
  // Belongs to another user, so it could not be killed either.
  if (environment === "refused") return "other";
  const { marker } = search;
  const isOurs =
    typeof marker === "string" ? environment.includes(marker) : environment.some(marker);
  return isOurs ? "ours" : "other";
}

function isOlder(facts: ProcessFacts, { sinceTicks }: Search): boolean {
  return sinceTicks !== null && Number(facts.startTicks) < Number(sinceTicks);
}
