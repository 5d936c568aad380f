// Computes a time that does not jump from the readings of a clock (the source) that may. Follows
// small corrections at once. Adopts a jump only after it has lasted for `adoptAfterMs`, so that a
// clock that is wrong for a moment changes nothing. Pure.

/** What a reading has shown. `aheadMs`: how far the source is or was ahead of the time in force. */
export type StepReport = {
  readonly kind: "stepped" | "went back" | "adopted";
  readonly aheadMs: number;
};

/**
 * The largest difference that is followed at once. Time servers correct less than this on a healthy
 * machine, and it is less than a quarter of any lease.
 */
export const followMs = 1_000;
/**
 * How long a jump must last until it is adopted. A wrong time server or a test of a clock is
 * corrected sooner, and receivers of webhooks and second factors tolerate a wrong time for longer.
 */
export const adoptAfterMs = 600_000;

/** The time in force, as an offset to monotonic time. */
export class SteadyTime {
  #offsetMs: number;
  #step: { offsetMs: number; readonly aheadMs: number; readonly sinceMs: number } | null = null;

  constructor(sourceMs: number, monotonicMs: number) {
    this.#offsetMs = sourceMs - monotonicMs;
  }

  at(monotonicMs: number): number {
    return monotonicMs + this.#offsetMs;
  }

  /** True while the source shows another time. */
  get isStepped(): boolean {
    return this.#step !== null;
  }

  /**
   * The source showed `sourceMs`, or up to `precisionMs` more, at `monotonicMs`. Null: nothing to
   * report.
   */
  compare(sourceMs: number, monotonicMs: number, precisionMs: number): StepReport | null {
    const found = sourceMs - monotonicMs;
    const followed = Math.min(Math.max(this.#offsetMs, found), found + precisionMs);
    const aheadMs = followed - this.#offsetMs;
    const step = this.#step;
    if (Math.abs(aheadMs) <= followMs) {
      this.#offsetMs = followed;
      this.#step = null;
      return step && { kind: "went back", aheadMs: step.aheadMs };
    }
    if (step === null || Math.abs(found - step.offsetMs) > followMs + precisionMs) {
      this.#step = { offsetMs: found, aheadMs, sinceMs: monotonicMs };
      return { kind: "stepped", aheadMs };
    }
    step.offsetMs = found;
    if (monotonicMs - step.sinceMs < adoptAfterMs) return null;
    this.#offsetMs = found;
    this.#step = null;
    return { kind: "adopted", aheadMs };
  }
}
