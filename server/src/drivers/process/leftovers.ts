// What an app without a sandbox leaves running when its first process has ended: processes that went to groups and
// sessions of their own, known by the marker in their environment. Called by a replica's turns until it says `none`:
// a process that is being replaced by its next program shows no environment, so one look that finds nothing proves nothing.
import { listProcesses, readProcess, signal, type ProcessFacts } from "./process-table.ts";

export type LeftoversOptions = {
  /** `NAME=value` in the environment of all that belongs to the replica. */
  readonly marker: string;
  /** The process group that the replica began in; null when that number may mean another group by now. */
  readonly group: number | null;
  /** When the replica's first process began: what is older is not its. Null when not known. */
  readonly sinceTicks: string | null;
};

/** The processes of a machine. */
export type ProcessTable = {
  list(): readonly number[];
  /** Null when there is no such process any more. */
  read(pid: number): ProcessFacts | null;
  /** A negative id is a group. */
  kill(pid: number): void;
};

/** `unclear`: something may be left, look again soon. `left`: something was, and was killed; look again soon too. */
export type SweepResult = "none" | "unclear" | "left";

const thisMachine: ProcessTable = {
  list: listProcesses,
  read: readProcess,
  kill: (pid) => void signal(pid, "SIGKILL"),
};

/** The sweeps after one replica. */
export class Leftovers {
  readonly #options: LeftoversOptions;
  readonly #table: ProcessTable;
  readonly #known: Known = { ours: new Set(), others: new Set(), dead: new Set() };
  #isGroupKilled = false;

  constructor(options: LeftoversOptions, table: ProcessTable = thisMachine) {
    this.#options = options;
    this.#table = table;
  }

  /** Looks once at every process, and kills what is left. */
  sweep(): SweepResult {
    const { group, ...options } = this.#options;
    // Only the first time: the number of an empty group may be given to somebody else.
    const isFirst = !this.#isGroupKilled;
    this.#isGroupKilled = true;
    if (isFirst && group !== null) this.#table.kill(-group);
    const given = { ...options, group: isFirst ? group : null, known: this.#known };
    let result: SweepResult = "none";
    for (const pid of this.#table.list()) {
      const owner = ownerOf(pid, this.#table.read(pid), given);
      if (owner === "ours") this.#table.kill(pid);
      if (owner === "ours") result = "left";
      if (owner === "unclear" && result === "none") result = "unclear";
    }
    return result;
  }
}

type Owner = "ours" | "other" | "unclear";

/** What earlier sweeps have found: process ids with their start, of others without it too. */
type Known = { readonly ours: Set<string>; readonly others: Set<string>; readonly dead: Set<string> };
type Given = LeftoversOptions & { readonly known: Known };

/** Whose a listed process is; adds it to what is known. */
function ownerOf(pid: number, facts: ProcessFacts | null, given: Given): Owner {
  const { known } = given;
  // What has ended may have had a child just before that the list does not hold, unless it was somebody else's.
  if (facts === null) return known.others.has(String(pid)) ? "other" : "unclear";
  const name = `${pid} ${facts.startTicks}`;
  if (known.others.has(name) || known.dead.has(name)) return "other";
  if (facts.isDead) {
    known.dead.add(name);
    return isOlder(facts, given) ? "other" : "unclear";
  }
  const owner = known.ours.has(name) ? "ours" : ownerOfLiving(facts, given);
  if (owner === "ours") known.ours.add(name);
  if (owner === "other") known.others.add(name).add(String(pid));
  return owner;
}

function ownerOfLiving(facts: ProcessFacts, given: Given): Owner {
  if (facts.isKernels || isOlder(facts, given)) return "other";
  if (facts.group === given.group) return "ours";
  const { environment } = facts;
  if (environment === "unknown") return "unclear";
  // Somebody else's, which could not be killed either.
  if (environment === "refused") return "other";
  return environment.includes(given.marker) ? "ours" : "other";
}

function isOlder(facts: ProcessFacts, { sinceTicks }: Given): boolean {
  return sinceTicks !== null && Number(facts.startTicks) < Number(sinceTicks);
}
