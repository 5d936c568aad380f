// The line of one app: calls that wait for a replica with room, first come, first served. Joining, leaving from the
// middle and taking the first all take constant time.

/** What can stand in a line; the links belong to the line. */
export interface InLine {
  previousInLine: InLine | null;
  nextInLine: InLine | null;
  isInLine: boolean;
}

/** A queue with leaving from anywhere. The bound is kept by who lets calls join. */
export class Line<T extends InLine> {
  #first: T | null = null;
  #last: T | null = null;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Puts `waiting`, which stands in no line, behind all others. */
  join(waiting: T): void {
    waiting.isInLine = true;
    waiting.previousInLine = this.#last;
    waiting.nextInLine = null;
    if (this.#last === null) this.#first = waiting;
    else this.#last.nextInLine = waiting;
    this.#last = waiting;
    this.#length++;
  }

  /** Puts `waiting`, which stands in no line, before all others: it had its turn already. */
  joinFirst(waiting: T): void {
    waiting.isInLine = true;
    waiting.previousInLine = null;
    waiting.nextInLine = this.#first;
    if (this.#first === null) this.#last = waiting;
    else this.#first.previousInLine = waiting;
    this.#first = waiting;
    this.#length++;
  }

  /** Takes out the one that waits longest; null when nobody waits. */
  takeFirst(): T | null {
    const first = this.#first;
    if (first !== null) this.leave(first);
    return first;
  }

  /** Takes `waiting` out; nothing happens when it stands in no line. */
  leave(waiting: T): void {
    if (!waiting.isInLine) return;
    const { previousInLine, nextInLine } = waiting;
    // All members of one line are of one kind, `join` sees to it.
    if (previousInLine === null) this.#first = nextInLine as T | null;
    else previousInLine.nextInLine = nextInLine;
    if (nextInLine === null) this.#last = previousInLine as T | null;
    else nextInLine.previousInLine = previousInLine;
    waiting.previousInLine = null;
    waiting.nextInLine = null;
    waiting.isInLine = false;
    this.#length--;
  }
}
