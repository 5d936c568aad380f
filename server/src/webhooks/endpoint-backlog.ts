// Which endpoints have deliveries that wait, as far as this platform knows, and from when on. Bounded: what does not fit is
// found by the next survey of the database.
import type { Clock } from "#lib/clock.ts";
import type { EndpointId } from "#lib/ids.ts";
import type { Wish } from "./delivery-slots.ts";

type Due = { readonly wish: Wish; isFresh: boolean };
type Later = { readonly wish: Wish; dueMs: number };

const endpointsMax = 20_000;
/** Timers of endpoints that become due within so short a time are one. */
const graceMs = 5;

/** The endpoints, in the order in which their turn comes. */
export class EndpointBacklog {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  /** A Map keeps the order of insertion. */
  readonly #due = new Map<EndpointId, Due>();
  readonly #later = new Map<EndpointId, Later>();
  #timer: { readonly atMs: number; readonly cancel: () => void } | undefined;

  /** `onDue` runs when a time has come. */
  constructor(options: { readonly clock: Clock; readonly onDue: () => void }) {
    this.#clock = options.clock;
    this.#onDue = options.onDue;
  }

  /** True when something of the endpoint is due. */
  has(endpointId: EndpointId): boolean {
    return this.#due.has(endpointId);
  }

  isAnyDue(): boolean {
    return this.#due.size > 0;
  }

  /** Something of the endpoint waits, for `waitMs` from now; the earliest counts. */
  add(endpointId: EndpointId, wish: Wish, waitMs: number): void {
    const due = this.#due.get(endpointId);
    if (due !== undefined) {
      due.isFresh ||= waitMs <= 0;
      if (waitMs <= 0) return;
    }
    const known = this.#later.get(endpointId);
    if (known === undefined && this.#due.size + this.#later.size >= endpointsMax) return;
    if (waitMs <= 0) {
      this.#later.delete(endpointId);
      this.#due.set(endpointId, { wish, isFresh: true });
      return;
    }
    const dueMs = this.#clock.monotonicMs() + waitMs;
    if (known === undefined) this.#later.set(endpointId, { wish, dueMs });
    else known.dueMs = Math.min(known.dueMs, dueMs);
    this.#setTimer(dueMs);
  }

  /** What is due, whose turn comes first first. Entries may be changed on the way. */
  due(): Iterable<[EndpointId, { readonly wish: Wish }]> {
    return this.#due;
  }

  /** As `add` for now, when the endpoint has or awaits its turn already; else false. */
  touch(endpointId: EndpointId): boolean {
    const due = this.#due.get(endpointId);
    if (due !== undefined) due.isFresh = true;
    return due !== undefined;
  }

  /** The endpoint's turn begins: what is added from here on may be missed by it. */
  begin(endpointId: EndpointId): void {
    const due = this.#due.get(endpointId);
    if (due !== undefined) due.isFresh = false;
  }

  /** The turn is over. `hasMore` or added since it began: it has another one, after all others; else it is forgotten. */
  end(endpointId: EndpointId, hasMore: boolean): void {
    const due = this.#due.get(endpointId);
    if (due === undefined) return;
    this.#due.delete(endpointId);
    if (hasMore || due.isFresh) this.#due.set(endpointId, due);
  }

  /** It can have no place for so long. */
  defer(endpointId: EndpointId, waitMs: number): void {
    const due = this.#due.get(endpointId);
    if (due === undefined) return;
    this.#due.delete(endpointId);
    this.add(endpointId, due.wish, waitMs);
  }

  /** Nothing of it is to be sent. */
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
