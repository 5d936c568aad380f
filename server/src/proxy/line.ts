// The line of one app: calls that wait for a replica with free capacity, first come, first served.
// Joining the line, leaving its middle and taking its first call need constant time.

/** An element of a line; the links belong to the line. */
export interface InLine {
  previousInLine: InLine | null;
  nextInLine: InLine | null;
  isInLine: boolean;
}

/** A queue that allows removal from anywhere. The caller enforces the bound. */
export class Line<T extends InLine> {
  #first: T | null = null;
  #last: T | null = null;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Appends `waiting`, which must not be in a line. */
  join(waiting: T): void {
    waiting.isInLine = true;
    waiting.previousInLine = this.#last;
    waiting.nextInLine = null;
    if (this.#last === null) this.#first = waiting;
    else this.#last.nextInLine = waiting;
    this.#last = waiting;
    this.#length++;
  }

  /**
   * Puts `waiting` back at the head of the line, from which it was taken earlier. It must not be in
   * a line.
   */
  joinFirst(waiting: T): void {
    waiting.isInLine = true;
    waiting.previousInLine = null;
    waiting.nextInLine = this.#first;
    if (this.#first === null) this.#last = waiting;
    else this.#first.previousInLine = waiting;
    this.#first = waiting;
    this.#length++;
  }

  /** Removes the call that has waited longest; null when the line is empty. */
  takeFirst(): T | null {
    const first = this.#first;
    if (first !== null) this.leave(first);
    return first;
  }

  /** Removes `waiting`; does nothing if it is not in the line. */
  leave(waiting: T): void {
    if (!waiting.isInLine) return;
    const { previousInLine, nextInLine } = waiting;
    // `join` ensures that all members of a line are of one kind.
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
