// Many deadlines at low cost: a timer wheel, driven by one timer that runs only while deadlines are
// set. Setting and clearing take constant time and allocate nothing; a deadline fires up to two
// ticks late, never early.
import type { Clock } from "#lib/clock.ts";

/** Something that has at most one deadline. */
export abstract class Timed {
  /** The time of the deadline, by `Clock.monotonicMs`. */
  deadlineAtMs = 0;
  /** The neighbors in the list of a slot of the wheel; null: no deadline is set. */
  previousTimed: Timed | null = null;
  nextTimed: Timed | null = null;

  /** Called once when the deadline has passed; may set a new one. */
  abstract onDeadline(nowMs: number): void;
}

/** The head of the circular list of the deadlines that belong to one slot of the wheel. */
class Slot extends Timed {
  onDeadline(): void {
    // The head of a slot's list has no deadline of its own.
  }
}

/** With ticks of 100 ms, a lap takes 51 s. A later deadline is looked at once in each lap. */
const slotsCount = 512;
/** Deadlines fire up to twice this late, which matters to none of them. */
const defaultTickMs = 100;

/** The timer wheel. `stop()` drops all deadlines. */
export class Deadlines {
  readonly #clock: Clock;
  /** The length of a tick: how often the timer looks for deadlines that have passed. */
  readonly #tickMs: number;
  readonly #slots: readonly Slot[];
  #count = 0;
  /** The tick up to which all deadlines have fired; a tick is a time divided by `#tickMs`. */
  #tick = 0;
  /** Cancels the timer; undefined: no timer is set. */
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, tickMs = defaultTickMs) {
    this.#clock = clock;
    this.#tickMs = tickMs;
    this.#slots = Array.from({ length: slotsCount }, () => {
      const slot = new Slot();
      slot.previousTimed = slot;
      slot.nextTimed = slot;
      return slot;
    });
  }

  /** How many deadlines are set. */
  get size(): number {
    return this.#count;
  }

  /** Sets the deadline of `timed`, which must have none. */
  set(timed: Timed, atMs: number): void {
    timed.deadlineAtMs = atMs;
    if (this.#count === 0) this.#begin();
    this.#count++;
    // A deadline in the past fires at the next tick.
    const tick = Math.max(Math.ceil(atMs / this.#tickMs), this.#tick + 1);
    insert(this.#slots[tick % slotsCount] as Slot, timed);
  }

  /** Clears the deadline; does nothing if none is set. */
  clear(timed: Timed): void {
    if (timed.nextTimed === null) return;
    remove(timed);
    this.#count--;
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    for (const slot of this.#slots) {
      while (slot.nextTimed !== null && slot.nextTimed !== slot) remove(slot.nextTimed);
    }
    this.#count = 0;
  }

  #begin(): void {
    if (this.#cancel !== undefined) return;
    this.#tick = Math.floor(this.#clock.monotonicMs() / this.#tickMs);
    this.#cancel = this.#clock.after(this.#tickMs, () => this.#turn());
  }

  #turn(): void {
    const nowMs = this.#clock.monotonicMs();
    const last = Math.floor(nowMs / this.#tickMs);
    // After a pause of more than a lap, the ticks of one lap reach every slot.
    const first = Math.max(this.#tick + 1, last - slotsCount + 1);
    this.#tick = Math.max(this.#tick, last);
    for (let tick = first; tick <= last; tick++)
      this.#expire(this.#slots[tick % slotsCount] as Slot, nowMs);
    if (this.#count === 0) this.#cancel = undefined;
    else this.#cancel = this.#clock.after(this.#tickMs, () => this.#turn());
  }

  /**
   * Calls the slot's timed objects that are due; the others belong to a later lap of the wheel. The
   * due ones are collected first, since `onDeadline` may clear or set any deadline.
   */
  #expire(slot: Slot, nowMs: number): void {
    const due: Timed[] = [];
    for (let timed = slot.nextTimed; timed !== null && timed !== slot; timed = timed.nextTimed) {
      if (timed.deadlineAtMs <= nowMs) due.push(timed);
    }
    for (const timed of due) {
      // An earlier `onDeadline` in this loop may have cleared the deadline, or set a later one.
      if (timed.nextTimed === null || timed.deadlineAtMs > nowMs) continue;
      this.clear(timed);
      timed.onDeadline(nowMs);
    }
  }
}

/** Adds a deadline at the end of the slot's list. */
function insert(slot: Slot, timed: Timed): void {
  const last = slot.previousTimed as Timed;
  timed.previousTimed = last;
  timed.nextTimed = slot;
  last.nextTimed = timed;
  slot.previousTimed = timed;
}

function remove(timed: Timed): void {
  const { previousTimed, nextTimed } = timed;
  if (previousTimed !== null) previousTimed.nextTimed = nextTimed;
  if (nextTimed !== null) nextTimed.previousTimed = previousTimed;
  timed.previousTimed = null;
  timed.nextTimed = null;
}
