// The gate for expensive requests: the owners of projects take turns, so that one person's requests
// leave database connections and memory to everybody else, however many projects the person has.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import { Fault } from "#lib/fault.ts";
import { Gate, type GateEntry, type Leave } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";

type Bounds = {
  /** The maximum number of requests that run at once on the whole platform. */
  readonly max: number;
  /**
   * The maximum number of requests that the projects of one owner may run at once. `half`: an owner
   * with fewer running requests than there are free slots may run another one, so one owner gets at
   * most half of `max`, rounded up.
   */
  readonly ownerMax: number | "half";
  /** The maximum number of requests that wait for a slot, for the projects of one owner. */
  readonly ownerWaitingMax: number;
  /** The name of these requests in the text of a refusal. */
  readonly what: string;
};

type Entry = Pick<GateEntry, "deadline"> & { readonly projectId: ProjectId };

/** The slots for requests of one kind, and the requests that wait for a slot, by project owner. */
export class OwnerGate {
  readonly #ownerKeyOf: OwnerKeyOf;
  readonly #gate: Gate;
  readonly #refusal: () => Fault;

  constructor({ ownerKeyOf }: { readonly ownerKeyOf: OwnerKeyOf }, bounds: Bounds) {
    const { max, ownerMax, ownerWaitingMax, what } = bounds;
    const ownerMaxText = ownerMax === "half" ? Math.ceil(max / 2) : ownerMax;
    const message = `Too many requests for ${what} at once: at most ${ownerMaxText} are answered for the projects of one owner while ${ownerWaitingMax} wait, and ${max} on the whole platform. Try again later.`;
    this.#ownerKeyOf = ownerKeyOf;
    this.#refusal = () => new Fault("rate_limited", message, { retryAfterSeconds: 1 });
    this.#gate = new Gate({
      max,
      keyMax: ownerMax,
      keyWaitingMax: ownerWaitingMax,
      // Only the waiting requests of each owner are limited, not all of them together.
      waitingMax: Number.POSITIVE_INFINITY,
    });
  }

  /**
   * Does the work as soon as a slot is free. Throws `Fault("rate_limited")` when too many requests
   * of the owner wait, or when this request has waited too long.
   */
  async run<Result>(work: () => Promise<Result>, entry: Entry): Promise<Result> {
    const leave = await this.enter(entry);
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** Waits for a slot, and returns the function that frees it. Rejects as `run` does. */
  async enter({ projectId, deadline }: Entry): Promise<Leave> {
    const key = await this.#ownerKeyOf(projectId);
    const leave = await this.#gate.enter(deadline === undefined ? { key } : { key, deadline });
    if (leave === null) throw this.#refusal();
    return leave;
  }
}
