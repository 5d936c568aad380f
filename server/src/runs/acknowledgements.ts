// Tells replicas which held runs they may forget: gathered per replica, so that many short runs cost few requests. Best
// effort and bounded, since a replica that is not told forgets by itself when it has no room. Used by `held-runs`.
import { formatAddress } from "#drivers/address.ts";
import type { Address } from "#drivers/driver.ts";
import { Batcher } from "#lib/batcher.ts";
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
export const lingerMs = 200;
/** Per replica; some times the runs that a replica holds. What comes on top is dropped. */
const queueMax = 5_000;
/** So long a replica may be out of reach; then what it was to be told is dropped. */
const retryForMs = 3_000;

type Gathering = { readonly heldIds: Batcher<HeldId>; dropped: number };

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
    gathering.heldIds.add(heldId).catch(() => (gathering.dropped += 1));
  }

  /** Tells what is left, with one failure per replica at most; then takes nothing more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#gatherings.values()].map(({ heldIds }) => heldIds.stop()));
  }

  #gatheringOf(address: Address): Gathering {
    const key = formatAddress(address);
    const known = this.#gatherings.get(key);
    if (known !== undefined) return known;
    const { send, clock, log } = this.#options;
    const heldIds = new Batcher<HeldId>({
      ...{ batchMax, queueMax, lingerMs, retryForMs, clock },
      write: (some) => send(address, some),
      onFailure: (error) => log.debug({ err: error, address }, "a replica could not be told which runs are settled"),
      onIdle: () => {
        this.#gatherings.delete(key);
        const { dropped } = fresh;
        if (dropped > 0) log.warn({ address, runs: dropped }, "settled runs were not told to a replica");
      },
    });
    const fresh = { heldIds, dropped: 0 };
    this.#gatherings.set(key, fresh);
    return fresh;
  }
}
