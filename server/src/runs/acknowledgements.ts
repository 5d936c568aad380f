// Tells replicas which held runs they may forget, batched per replica, so that many short runs cost
// few requests. Best effort and bounded: without an acknowledgement a replica drops old runs when
// space runs out. Used by `held-runs`.
import { formatAddress } from "#drivers/address.ts";
import type { Address } from "#drivers/driver.ts";
import { Batcher } from "#lib/batcher.ts";
import type { Foundation } from "#store/foundation.ts";
import type { HeldId } from "./held-id.ts";

export type AcknowledgementsOptions = Pick<Foundation, "clock" | "log"> & {
  /** Sends a batch to one replica; rejects on failure. Has its own deadline. */
  readonly send: (address: Address, heldIds: readonly HeldId[]) => Promise<void>;
};

/** The maximum batch size of one request. */
export const batchMax = 100;
/** How long the first of a batch waits for others. */
export const lingerMs = 200;
/** Per replica; several times the runs that a replica holds. Further ones are dropped. */
const queueMax = 5_000;
/** How long a replica may be unreachable before its acknowledgements are dropped. */
const retryForMs = 3_000;

type Gathering = { readonly heldIds: Batcher<HeldId>; dropped: number };

/** One per platform. */
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

  /** Sends what is left, with at most one failure per replica; accepts nothing after that. */
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
      batchMax,
      queueMax,
      lingerMs,
      retryForMs,
      clock,
      write: (some) => send(address, some),
      onFailure: (error) =>
        log.debug({ err: error, address }, "a replica could not be told which runs are settled"),
      onIdle: () => {
        this.#gatherings.delete(key);
        const { dropped } = fresh;
        if (dropped > 0)
          log.warn({ address, runs: dropped }, "settled runs were not told to a replica");
      },
    });
    const fresh = { heldIds, dropped: 0 };
    this.#gatherings.set(key, fresh);
    return fresh;
  }
}
