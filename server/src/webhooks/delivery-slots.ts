// How many deliveries may be under way, in all, for each project and for each receiver. What one may take shrinks as places
// become rare, so that some are always left for those that have none; a receiver that fails gets one at a time, with growing
// pauses. Kept in memory: after a restart each receiver is found out anew.
import type { Clock } from "#lib/clock.ts";
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { ProjectId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";

/** Who wants a place: deliveries of one lane go to one receiver. */
export type Wish = { readonly lane: string; readonly projectId: ProjectId };

/** One delivery under way. */
export type DeliverySlot = {
  /** Counts what the delivery holds in memory. */
  hold(bytes: number): void;
  /** Once, when it is over. */
  release(): void;
};

export type DeliverySlotsOptions = {
  /** The most deliveries under way. */
  readonly atOnce: number;
  /** The most bytes that they should hold together. */
  readonly bytesMax: number;
  readonly clock: Clock;
};

/** What is known of a receiver. */
type Window = { max: number; troubles: number; closedUntilMs: number };

/** Receivers start with this many at a time; each success allows one more. */
const windowFirst = 16;
/** A receiver's largest share of all places. */
const sharePart = 4;
/** This part of all places is kept for receivers and projects that have none. */
const keptPart = 4;
/** With 10,000 deliveries waiting for a dead receiver this makes a pass last some hours, and a recovery be seen in a second. */
const pause: Backoff = { firstMs: 50, factor: 2, msMax: 1000, jitter: 0 };
/** Receivers that are remembered while nothing is under way to them. */
const lanesKnownMax = 10_000;

/** The places of one platform. */
export class DeliverySlots {
  readonly #options: DeliverySlotsOptions;
  readonly #windows = new LruMap<string, Window>(lanesKnownMax);
  readonly #ofLane = new Map<string, number>();
  readonly #ofProject = new Map<string, number>();
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

  /** How many bytes more may be held; never negative. */
  get bytesLeft(): number {
    return Math.max(0, this.#options.bytesMax - this.#bytes);
  }

  /** A delivery too large for what is left may come in while less than half is held: it must not wait for ever. */
  get isRoomy(): boolean {
    return this.#bytes < this.#options.bytesMax / 2;
  }

  /** A place, or null when the lane must wait. */
  take(wish: Wish): DeliverySlot | null {
    if (!this.#hasRoom(wish)) return null;
    add(this.#ofLane, wish.lane, 1);
    add(this.#ofProject, wish.projectId, 1);
    this.#taken++;
    let held = 0;
    let isOver = false;
    return {
      hold: (bytes) => {
        held += bytes;
        this.#bytes += bytes;
      },
      release: () => {
        if (isOver) return;
        isOver = true;
        this.#bytes -= held;
        this.#taken--;
        add(this.#ofLane, wish.lane, -1);
        add(this.#ofProject, wish.projectId, -1);
      },
    };
  }

  /** How long the lane is closed after failures; 0: it is open. */
  closedMs(lane: string): number {
    const until = this.#windows.get(lane)?.closedUntilMs ?? 0;
    return Math.max(0, until - this.#options.clock.monotonicMs());
  }

  /** Told of each attempt: failures halve what a receiver gets at a time, and in the end make it wait. */
  noteEnd(lane: string, isTrouble: boolean): void {
    const window = this.#windows.get(lane) ?? { max: this.#first(), troubles: 0, closedUntilMs: 0 };
    this.#windows.set(lane, window);
    if (!isTrouble) {
      window.max = Math.min(this.#mostOfLane(), window.max + 1);
      window.troubles = 0;
      window.closedUntilMs = 0;
      return;
    }
    if (window.max === 1) {
      window.troubles++;
      window.closedUntilMs = this.#options.clock.monotonicMs() + backoffMs(pause, window.troubles, 0.5);
    }
    window.max = Math.max(1, Math.floor(window.max / 2));
  }

  #hasRoom({ lane, projectId }: Wish): boolean {
    const { atOnce } = this.#options;
    const free = atOnce - this.#taken;
    if (free <= 0 || this.closedMs(lane) > 0) return false;
    // The last ones go to those that have none. Of the others a project gets no more than it leaves, and a receiver half
    // of that: greedy ones leave room, and many of them share alike.
    const shared = free - Math.floor(atOnce / keptPart);
    const window = this.#windows.get(lane)?.max ?? this.#first();
    const laneMax = Math.min(window, Math.max(1, Math.floor(shared / 2)));
    const isLaneFree = (this.#ofLane.get(lane) ?? 0) < laneMax;
    return isLaneFree && (this.#ofProject.get(projectId) ?? 0) < Math.max(1, shared);
  }

  #first(): number {
    return Math.min(windowFirst, this.#mostOfLane());
  }

  #mostOfLane(): number {
    return Math.max(1, Math.floor(this.#options.atOnce / sharePart));
  }
}

function add(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
