// Turns readings of a clock that may step into time that does not step: pure. Follows small
// corrections at once. Adopts a step only after it has lasted for `adoptAfterMs`: a clock that is
// briefly wrong changes nothing, a corrected one is believed.

/**
 * The result of a reading; `aheadMs` is how far the source is, or was, ahead of the time in force.
 */
export type StepReport = {
  readonly kind: "stepped" | "went back" | "adopted";
  readonly aheadMs: number;
};

/**
 * More than time servers correct at once on a machine that keeps time, less than a quarter of any
 * lease.
 */
export const followMs = 1_000;
/**
 * Longer than a wrong time server or a clock test lasts, shorter than receivers and second factors
 * tolerate.
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
  look(sourceMs: number, monotonicMs: number, precisionMs: number): StepReport | null {
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
