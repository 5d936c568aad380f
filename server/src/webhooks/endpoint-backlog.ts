// Tracks which endpoints have waiting deliveries, as far as this platform knows, and when they are
// due. Bounded: the next survey of the database finds what does not fit.
import type { Clock } from "#lib/clock.ts";
import type { EndpointId } from "#lib/ids.ts";
import type { Wish } from "./delivery-slots.ts";

/**
 * An endpoint with a due delivery. `wish`: the slot that its deliveries need. `isFresh`: a delivery
 * was added since the endpoint's last turn began.
 */
type Due = { readonly wish: Wish; isFresh: boolean };
/** An endpoint with a delivery that becomes due at `dueMs`, by `Clock.monotonicMs`. */
type Later = { readonly wish: Wish; dueMs: number };

const endpointsMax = 20_000;
/** Endpoints that become due within this time share one timer. */
const graceMs = 5;

/** The endpoints, in the order of their turns. */
export class EndpointBacklog {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  /** The due endpoints in the order of their turns, since a Map keeps insertion order. */
  readonly #due = new Map<EndpointId, Due>();
  /** An endpoint may be in both maps, when it has another delivery that becomes due later. */
  readonly #later = new Map<EndpointId, Later>();
  #timer: { readonly atMs: number; readonly cancel: () => void } | undefined;

  /** `onDue` runs when an endpoint becomes due. */
  constructor(options: { readonly clock: Clock; readonly onDue: () => void }) {
    this.#clock = options.clock;
    this.#onDue = options.onDue;
  }

  isAnyDue(): boolean {
    return this.#due.size > 0;
  }

  /**
   * Notes that a delivery of the endpoint is due in `waitMs`. Of the endpoint's deliveries that
   * become due later, only the earliest is noted.
   */
  add(endpointId: EndpointId, wish: Wish, waitMs: number): void {
    if (waitMs <= 0 && this.touch(endpointId)) return;
    const later = this.#later.get(endpointId);
    const isFull = this.#due.size + this.#later.size >= endpointsMax;
    if (later === undefined && isFull) return;
    if (waitMs <= 0) {
      // The endpoint stays noted for a later delivery too, unless there is no space for both.
      if (isFull) this.#later.delete(endpointId);
      this.#due.set(endpointId, { wish, isFresh: true });
      return;
    }
    const dueMs = this.#clock.monotonicMs() + waitMs;
    if (later === undefined) this.#later.set(endpointId, { wish, dueMs });
    else later.dueMs = Math.min(later.dueMs, dueMs);
    this.#setTimer(dueMs);
  }

  /** The due endpoints in the order of their turns. They may change during the iteration. */
  due(): Iterable<[EndpointId, { readonly wish: Wish }]> {
    return this.#due;
  }

  /**
   * Notes one more due delivery of an endpoint that is already due. If the endpoint is not due,
   * does nothing and returns false.
   */
  touch(endpointId: EndpointId): boolean {
    const due = this.#due.get(endpointId);
    if (due !== undefined) due.isFresh = true;
    return due !== undefined;
  }

  /** Begins the endpoint's turn, which may miss deliveries added from here on. */
  begin(endpointId: EndpointId): void {
    const due = this.#due.get(endpointId);
    if (due !== undefined) due.isFresh = false;
  }

  /**
   * Ends the endpoint's turn. With `hasMore`, or if a delivery was added meanwhile, the endpoint
   * has its next turn after all others; else it is removed.
   */
  end(endpointId: EndpointId, hasMore: boolean): void {
    const due = this.#due.get(endpointId);
    if (due === undefined) return;
    this.#due.delete(endpointId);
    if (hasMore || due.isFresh) this.#due.set(endpointId, due);
  }

  /** Called when the endpoint can get no slot in the next `waitMs`. */
  defer(endpointId: EndpointId, waitMs: number): void {
    const due = this.#due.get(endpointId);
    if (due === undefined) return;
    this.#due.delete(endpointId);
    this.add(endpointId, due.wish, waitMs);
  }

  /** Forgets the endpoint, for example since it is paused. */
  delete(endpointId: EndpointId): void {
    this.#due.delete(endpointId);
    this.#later.delete(endpointId);
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #setTimer(atMs: number): void {
    if (this.#timer !== undefined && this.#timer.atMs <= atMs + graceMs) return;
    this.#timer?.cancel();
    const waitMs = Math.max(0, atMs - this.#clock.monotonicMs());
    this.#timer = { atMs, cancel: this.#clock.after(waitMs, () => this.#wake()) };
  }

  #wake(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.monotonicMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [endpointId, { wish, dueMs }] of this.#later) {
      if (dueMs > nowMs) {
        nextMs = Math.min(nextMs, dueMs);
        continue;
      }
      this.#later.delete(endpointId);
      this.#due.set(endpointId, { wish, isFresh: true });
    }
    if (nextMs < Number.POSITIVE_INFINITY) this.#setTimer(nextMs);
    this.#onDue();
  }
}
