// Tells replicas which held runs they may forget: gathered per replica, so that many short runs cost few requests. Best
// effort and bounded, since a replica that is not told forgets by itself when it has no room. Used by `held-runs`.
import { formatAddress } from "#drivers/address.ts";
import type { Address } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { HeldId } from "./held-id.ts";

export type AcknowledgementsOptions = {
  /** Tells one replica; rejects when it could not be told. Has a deadline of its own. */
  readonly send: (address: Address, heldIds: readonly HeldId[]) => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
};

/** How many are told in one request. */
export const batchMax = 100;
/** How long the first of them waits for others. */
export const gatherMs = 200;
/** Per replica; some times the runs that a replica holds. What comes on top is dropped. */
const waitingMax = 5_000;
/** So often in a row a replica may be out of reach; then what it was to be told is dropped. */
const failuresMax = 3;
const retryMs = 1_000;

type Gathering = {
  readonly address: Address;
  readonly heldIds: Set<HeldId>;
  cancelTimer: (() => void) | null;
  sending: Promise<void> | null;
  failures: number;
  dropped: number;
};

/** One for the platform. */
export class Acknowledgements {
  readonly #options: AcknowledgementsOptions;
  readonly #gatherings = new Map<string, Gathering>();
  #isClosed = false;

  constructor(options: AcknowledgementsOptions) {
    this.#options = options;
  }

  /** Returns at once. */
  add(address: Address, heldId: HeldId): void {
    if (this.#isClosed) return;
    const gathering = this.#gatheringOf(address);
    if (gathering.heldIds.size >= waitingMax) gathering.dropped += 1;
    else gathering.heldIds.add(heldId);
    if (gathering.sending !== null) return;
    if (gathering.heldIds.size >= batchMax && gathering.failures === 0) this.#flush(gathering);
    else this.#later(gathering, gatherMs);
  }

  /** Tells what is left, with one failure per replica at most; then takes nothing more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const rest = [...this.#gatherings.values()].map(async (gathering) => {
      gathering.cancelTimer?.();
      await gathering.sending;
      gathering.failures = 0;
      while (gathering.heldIds.size > 0 && gathering.failures === 0) await this.#sendBatch(gathering);
    });
    await Promise.all(rest);
    this.#gatherings.clear();
  }

  #gatheringOf(address: Address): Gathering {
    const key = formatAddress(address);
    const known = this.#gatherings.get(key);
    if (known !== undefined) return known;
    const fresh = { address, heldIds: new Set<HeldId>(), cancelTimer: null, sending: null, failures: 0, dropped: 0 };
    this.#gatherings.set(key, fresh);
    return fresh;
  }

  #later(gathering: Gathering, waitMs: number): void {
    gathering.cancelTimer ??= this.#options.clock.after(waitMs, () => this.#flush(gathering));
  }

  #flush(gathering: Gathering): void {
    gathering.cancelTimer?.();
    gathering.cancelTimer = null;
    gathering.sending = this.#sendBatch(gathering).then(() => {
      gathering.sending = null;
      if (this.#isClosed) return;
      if (gathering.heldIds.size === 0) this.#gatherings.delete(formatAddress(gathering.address));
      else if (gathering.failures > 0) this.#later(gathering, retryMs);
      else if (gathering.heldIds.size >= batchMax) this.#flush(gathering);
      else this.#later(gathering, gatherMs);
    });
  }

  /** Never rejects. */
  async #sendBatch(gathering: Gathering): Promise<void> {
    const { send, log } = this.#options;
    const { address, heldIds } = gathering;
    const batch = [...heldIds].slice(0, batchMax);
    for (const heldId of batch) heldIds.delete(heldId);
    try {
      await send(address, batch);
      gathering.failures = 0;
    } catch (error) {
      gathering.failures += 1;
      for (const heldId of batch) heldIds.add(heldId);
      if (gathering.failures < failuresMax) return;
      gathering.dropped += heldIds.size;
      heldIds.clear();
      log.debug({ err: error, address }, "a replica could not be told which runs are settled");
    }
    if (gathering.dropped > 0)
      log.warn({ address, runs: gathering.dropped }, "settled runs were not told to a replica");
    gathering.dropped = 0;
  }
}
