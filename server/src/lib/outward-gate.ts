// Bounds the calls out that are under way, to one receiver and in all. A receiver that is slow holds up only calls to
// itself: whoever waits for it holds no place of the others.
import type { Clock } from "./clock.ts";

/** How many may be under way. */
export type GateBounds = { readonly totalMax: number; readonly perReceiverMax: number };

/** So many wait in one line; the rest are turned away at once. */
const waitingMax = 10_000;

/** Lets calls through, in the order in which they came. */
export class OutwardGate {
  readonly #clock: Clock;
  readonly #bounds: GateBounds;
  readonly #total: Line;
  readonly #receivers = new Map<string, Line>();

  constructor(clock: Clock, bounds: GateBounds) {
    this.#clock = clock;
    this.#bounds = bounds;
    this.#total = new Line(bounds.totalMax);
  }

  /** Resolves with how to leave, to be called once; with null when there was no room within `waitMs`, or when it closes. */
  async enter(receiver: string, waitMs: number): Promise<(() => void) | null> {
    const endsAtMs = this.#clock.monotonicMs() + waitMs;
    const line = this.#lineOf(receiver);
    if (!line.tryEnter() && !(await line.wait(this.#clock, waitMs))) return this.#forgetIdle(receiver, line);
    if (this.#total.tryEnter() || (await this.#total.wait(this.#clock, endsAtMs - this.#clock.monotonicMs()))) {
      return () => {
        this.#total.leave();
        line.leave();
        this.#forgetIdle(receiver, line);
      };
    }
    line.leave();
    return this.#forgetIdle(receiver, line);
  }

  /** Turns away all who wait. */
  close(): void {
    this.#total.close();
    for (const line of this.#receivers.values()) line.close();
  }

  #lineOf(receiver: string): Line {
    let line = this.#receivers.get(receiver);
    if (line === undefined) {
      line = new Line(this.#bounds.perReceiverMax);
      this.#receivers.set(receiver, line);
    }
    return line;
  }

  #forgetIdle(receiver: string, line: Line): null {
    if (line.isIdle) this.#receivers.delete(receiver);
    return null;
  }
}

class Line {
  readonly #atOnceMax: number;
  readonly #waiting = new Set<(isLet: boolean) => void>();
  #inside = 0;

  constructor(atOnceMax: number) {
    this.#atOnceMax = atOnceMax;
  }

  get isIdle(): boolean {
    return this.#inside === 0 && this.#waiting.size === 0;
  }

  tryEnter(): boolean {
    if (this.#inside >= this.#atOnceMax) return false;
    this.#inside++;
    return true;
  }

  wait(clock: Clock, waitMs: number): Promise<boolean> {
    if (this.#waiting.size >= waitingMax || waitMs <= 0) return Promise.resolve(false);
    return new Promise((resolve) => {
      const tell = (isLet: boolean): void => {
        this.#waiting.delete(tell);
        cancel();
        resolve(isLet);
      };
      const cancel = clock.after(waitMs, () => tell(false));
      this.#waiting.add(tell);
    });
  }

  /** The place goes to the first who waits. */
  leave(): void {
    const [first] = this.#waiting;
    if (first === undefined) this.#inside--;
    else first(true);
  }

  close(): void {
    for (const tell of this.#waiting) tell(false);
  }
}
