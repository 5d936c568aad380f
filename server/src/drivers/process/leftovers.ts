// What programs without a sandbox leave running when the first of them has ended: processes that went to groups and
// sessions of their own, known by a marker in their environment. Used for replicas and builds, look by look: a process
// that is being replaced by its next program shows no environment, so one look that finds nothing proves nothing.
import type { Clock } from "#lib/clock.ts";
import { listProcesses, readProcess, signal, type ProcessFacts } from "./process-table.ts";

export type LeftoversOptions = {
  /** `NAME=value` in the environment of all that belongs together. */
  readonly marker: string;
  /** The process group that it began in; null when that number may mean another group by now. */
  readonly group: number | null;
  /** When its first process began: what is older does not belong to it. Null when not known. */
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

/** `gone`: nothing is left. `again`: something was and was killed, or it is not sure yet; look again soon. `lost`: time is up. */
export type SweepResult = "gone" | "again" | "lost";

/** What starts processes faster than they are killed is given up on after this; only a sandbox stops that. */
const sweepMsMax = 10_000;
/** On a machine where processes come and go all the time no look may ever be sure. Its next program a process has long before this. */
const changingMsMax = 2000;
/** What has a child and ends, again and again, between all looks of this time does so on purpose; only a sandbox stops that. */
const endedMsMax = 300;
/** Between two looks; a program takes its place in far less. */
const againMs = 5;

const thisMachine: ProcessTable = {
  list: listProcesses,
  read: readProcess,
  kill: (pid) => void signal(pid, "SIGKILL"),
};

/** Ends all that carries the marker. Resolves when it is gone, or with false when that could not be done in time. */
export async function endMarked(marker: string, clock: Clock): Promise<boolean> {
  const leftovers = new Leftovers({ marker, group: null, sinceTicks: null });
  for (;;) {
    const result = leftovers.sweep(clock.monotonicMs());
    if (result !== "again") return result === "gone";
    await clock.sleep(againMs);
  }
}

/** The sweeps after one replica or build. */
export class Leftovers {
  readonly #options: LeftoversOptions;
  readonly #table: ProcessTable;
  readonly #known: Known = { ours: new Set(), others: new Set(), dead: new Set() };
  #sinceMs: number | null = null;
  #lastSeenMs = 0;

  constructor(options: LeftoversOptions, table: ProcessTable = thisMachine) {
    this.#options = options;
    this.#table = table;
  }

  /** Looks once at every process, and kills what is left. `nowMs` counts from any fixed point. */
  sweep(nowMs: number): SweepResult {
    const { group, ...options } = this.#options;
    // Only the first time: the number of an empty group may be given to somebody else.
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

  #owners(given: Given): ReadonlySet<Owner> {
    const owners = new Set<Owner>();
    for (const pid of this.#table.list()) {
      const owner = ownerOf(pid, this.#table.read(pid), given);
      if (owner === "ours") this.#table.kill(pid);
      owners.add(owner);
    }
    return owners;
  }
}

/** `changing`: between two programs. `ended`: it may have had a child just before that this look does not know of. */
type Owner = "ours" | "other" | "changing" | "ended";

/** What earlier sweeps have found: process ids with their start, of others without it too. */
type Known = { readonly ours: Set<string>; readonly others: Set<string>; readonly dead: Set<string> };
type Given = LeftoversOptions & { readonly known: Known };

/** Whose a listed process is; adds it to what is known. */
function ownerOf(pid: number, facts: ProcessFacts | null, given: Given): Owner {
  const { known } = given;
  if (facts === null) return known.others.has(String(pid)) ? "other" : "ended";
  const name = `${pid} ${facts.startTicks}`;
  if (known.others.has(name) || known.dead.has(name)) return "other";
  if (facts.isDead) {
    known.dead.add(name);
    return isOlder(facts, given) ? "other" : "ended";
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
  if (environment === "unknown") return "changing";
  // Somebody else's, which could not be killed either.
  if (environment === "refused") return "other";
  return environment.includes(given.marker) ? "ours" : "other";
}

function isOlder(facts: ProcessFacts, { sinceTicks }: Given): boolean {
  return sinceTicks !== null && Number(facts.startTicks) < Number(sinceTicks);
}
