// Limits concurrent deliveries, in total, per owner and per receiver. The shares shrink as slots
// become scarce, so that some remain for receivers and owners that have none; a failing receiver
// gets one delivery at a time, with growing pauses. All state is in memory: after a restart it is
// learned again.
import type { Clock } from "#lib/clock.ts";
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import { LruMap } from "#lib/lru-map.ts";

/**
 * A request for a slot. A lane has the deliveries of one project to one receiver, and "receiver"
 * means the lane in this file. Lanes with one owner key belong to projects of one person.
 */
export type Wish = { readonly lane: string; readonly ownerKey: string };

/** The slot of one delivery in progress. */
export type DeliverySlot = {
  /** Counts the delivery's bytes in memory. */
  hold(bytes: number): void;
  /** Call once, when the delivery is over. */
  release(): void;
};

export type DeliverySlotsOptions = {
  /** The maximum number of concurrent deliveries. */
  readonly atOnce: number;
  /** The maximum number of bytes that they should hold together. */
  readonly bytesMax: number;
  readonly clock: Clock;
};

/** The state of a receiver. */
type Window = {
  /** How many deliveries it may get at the same time, at present. */
  max: number;
  /** How many attempts in a row have failed while it got only one delivery at a time. */
  troubles: number;
  /** By `Clock.monotonicMs`. */
  closedUntilMs: number;
};

/** The initial concurrency of a receiver; each success raises it by one. */
const windowFirst = 16;
/** One receiver may use at most one in this many slots. */
const sharePart = 4;
/** One in this many slots is reserved for receivers and owners that have none. */
const reservedPart = 4;
/**
 * How long a failing receiver is closed: a second at most, so that its recovery is noticed soon. To
 * try each of 10,000 deliveries to a dead receiver once then takes some hours.
 */
const pause: Backoff = { firstMs: 50, factor: 2, msMax: 1000, jitter: 0 };
/** The maximum number of receivers whose state is kept. */
const lanesKnownMax = 10_000;

/** The delivery slots of one platform. */
export class DeliverySlots {
  readonly #options: DeliverySlotsOptions;
  readonly #windows = new LruMap<string, Window>(lanesKnownMax);
  readonly #slotsByLane = new Map<string, number>();
  readonly #slotsByOwner = new Map<string, number>();
  #taken = 0;
  #bytes = 0;

  constructor(options: DeliverySlotsOptions) {
    this.#options = options;
  }

  get isFull(): boolean {
    return this.#taken >= this.#options.atOnce;
  }

  get bytesMax(): number {
    return this.#options.bytesMax;
  }

  /** How many more bytes may be held; never negative. */
  get bytesLeft(): number {
    return Math.max(0, this.#options.bytesMax - this.#bytes);
  }

  /**
   * True while less than half of the bytes are held: a delivery with more bytes than are left is
   * then admitted, so that it does not wait forever.
   */
  get hasCapacity(): boolean {
    return this.#bytes < this.#options.bytesMax / 2;
  }

  /** Takes a slot; null when the lane must wait. */
  take(wish: Wish): DeliverySlot | null {
    if (!this.#hasFreeSlot(wish)) return null;
    add(this.#slotsByLane, wish.lane, 1);
    add(this.#slotsByOwner, wish.ownerKey, 1);
    this.#taken++;
    let heldBytes = 0;
    let isOver = false;
    return {
      hold: (bytes) => {
        heldBytes += bytes;
        this.#bytes += bytes;
      },
      release: () => {
        if (isOver) return;
        isOver = true;
        this.#bytes -= heldBytes;
        this.#taken--;
        add(this.#slotsByLane, wish.lane, -1);
        add(this.#slotsByOwner, wish.ownerKey, -1);
      },
    };
  }

  /** How long the lane stays closed after failures; 0: it is open. */
  closedMs(lane: string): number {
    const until = this.#windows.get(lane)?.closedUntilMs ?? 0;
    return Math.max(0, until - this.#options.clock.monotonicMs());
  }

  /**
   * Called after each attempt: failures halve a receiver's concurrency and finally close it for a
   * while.
   */
  noteEnd(lane: string, isTrouble: boolean): void {
    const window = this.#windows.get(lane) ?? {
      max: this.#firstWindow(),
      troubles: 0,
      closedUntilMs: 0,
    };
    this.#windows.set(lane, window);
    if (!isTrouble) {
      window.max = Math.min(this.#maxOfLane(), window.max + 1);
      window.troubles = 0;
      window.closedUntilMs = 0;
      return;
    }
    if (window.max === 1) {
      window.troubles++;
      // The last argument would choose the jitter, but `pause` has none.
      window.closedUntilMs =
        this.#options.clock.monotonicMs() + backoffMs(pause, window.troubles, 0.5);
    }
    window.max = Math.max(1, Math.floor(window.max / 2));
  }

  #hasFreeSlot({ lane, ownerKey }: Wish): boolean {
    const { atOnce } = this.#options;
    const free = atOnce - this.#taken;
    if (free <= 0 || this.closedMs(lane) > 0) return false;
    // An owner may have as many slots as are free besides the reserved ones, and a lane half as
    // many, so that heavy users share equally. A first slot is always allowed: the reserved slots
    // are for lanes and owners without one.
    const unreserved = free - Math.floor(atOnce / reservedPart);
    const ownerMax = Math.max(1, unreserved);
    const window = this.#windows.get(lane)?.max ?? this.#firstWindow();
    const laneMax = Math.min(window, Math.max(1, Math.floor(unreserved / 2)));
    const isBelowLaneMax = (this.#slotsByLane.get(lane) ?? 0) < laneMax;
    const isBelowOwnerMax = (this.#slotsByOwner.get(ownerKey) ?? 0) < ownerMax;
    return isBelowLaneMax && isBelowOwnerMax;
  }

  #firstWindow(): number {
    return Math.min(windowFirst, this.#maxOfLane());
  }

  #maxOfLane(): number {
    return Math.max(1, Math.floor(this.#options.atOnce / sharePart));
  }
}

function add(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
