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
const batchMax = 100;
/** How long the first acknowledgement of a batch waits for others. */
const lingerMs = 200;
/**
 * The maximum per replica, several times the runs that it holds. Further acknowledgements are
 * dropped.
 */
const queueMax = 5_000;
/** How long a replica may be unreachable before its acknowledgements are dropped. */
const retryForMs = 3_000;

type ReplicaQueue = { readonly heldIds: Batcher<HeldId>; dropped: number };

/** Collects acknowledgements and sends them; one per platform. */
export class Acknowledgements {
  readonly #options: AcknowledgementsOptions;
  readonly #queues = new Map<string, ReplicaQueue>();
  #isClosed = false;

  constructor(options: AcknowledgementsOptions) {
    this.#options = options;
  }

  /** Queues an acknowledgement; returns at once. */
  add(address: Address, heldId: HeldId): void {
    if (this.#isClosed) return;
    const queue = this.#queueOf(address);
    queue.heldIds.add(heldId).catch(() => {
      queue.dropped += 1;
    });
  }

  /**
   * Accepts no more, and sends the remaining acknowledgements; those for a replica are dropped at
   * the first failure.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#queues.values()].map(({ heldIds }) => heldIds.stop()));
  }

  #queueOf(address: Address): ReplicaQueue {
    const key = formatAddress(address);
    const existing = this.#queues.get(key);
    if (existing !== undefined) return existing;
    const { send, clock, log } = this.#options;
    const heldIds = new Batcher<HeldId>({
      batchMax,
      queueMax,
      lingerMs,
      retryForMs,
      clock,
      write: (batch) => send(address, batch),
      onFailure: (error) =>
        log.debug({ err: error, address }, "a replica could not be told which runs are settled"),
      onIdle: () => {
        this.#queues.delete(key);
        const { dropped } = queue;
        if (dropped > 0)
          log.warn({ address, runs: dropped }, "settled runs were not told to a replica");
      },
    });
    const queue = { heldIds, dropped: 0 };
    this.#queues.set(key, queue);
    return queue;
  }
}
