// Computes a time without jumps from the readings of a clock (the source) that may jump. Follows
// small corrections at once. Adopts a jump only after it has lasted for `adoptAfterMs`, so that a
// clock that is wrong for a moment changes nothing. Pure.

/**
 * A change that a reading shows. `aheadMs`: how far the source is or was ahead of the steady time.
 */
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
 * How long a jump must last until it is adopted. A wrong time server is usually corrected sooner.
 * But if the new time is right, receivers may refuse webhooks, and the platform may refuse codes of
 * second factors, until it is adopted.
 */
const adoptAfterMs = 600_000;

/** The steady time, as an offset to monotonic time. */
export class SteadyTime {
  #offsetMs: number;
  /**
   * The jump that has not lasted long enough yet; null: there is none. `offsetMs`: the source minus
   * monotonic time; `aheadMs`: as in `StepReport`; `sinceMs`: when the jump was noticed.
   */
  #step: { offsetMs: number; readonly aheadMs: number; readonly sinceMs: number } | null = null;

  constructor(sourceMs: number, monotonicMs: number) {
    this.#offsetMs = sourceMs - monotonicMs;
  }

  /** The steady time at this monotonic time. */
  at(monotonicMs: number): number {
    return monotonicMs + this.#offsetMs;
  }

  /** Whether the source has jumped and the jump has not been adopted. */
  get isStepped(): boolean {
    return this.#step !== null;
  }

  /**
   * Compares the steady time with a reading: the source showed `sourceMs`, or up to `precisionMs`
   * more, at `monotonicMs`. Returns null when there is nothing to report.
   */
  compare(sourceMs: number, monotonicMs: number, precisionMs: number): StepReport | null {
    const readOffsetMs = sourceMs - monotonicMs;
    // Each offset from `readOffsetMs` to `precisionMs` above it fits the reading. This is the one
    // that is nearest to the present offset.
    const nearestMs = Math.min(Math.max(this.#offsetMs, readOffsetMs), readOffsetMs + precisionMs);
    const aheadMs = nearestMs - this.#offsetMs;
    const step = this.#step;
    if (Math.abs(aheadMs) <= followMs) {
      this.#offsetMs = nearestMs;
      this.#step = null;
      return step && { kind: "went back", aheadMs: step.aheadMs };
    }
    // The source has jumped, or has jumped again.
    if (step === null || Math.abs(readOffsetMs - step.offsetMs) > followMs + precisionMs) {
      this.#step = { offsetMs: readOffsetMs, aheadMs, sinceMs: monotonicMs };
      return { kind: "stepped", aheadMs };
    }
    step.offsetMs = readOffsetMs;
    if (monotonicMs - step.sinceMs < adoptAfterMs) return null;
    this.#offsetMs = readOffsetMs;
    this.#step = null;
    return { kind: "adopted", aheadMs };
  }
}
