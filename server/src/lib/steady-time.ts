// A clock of the world, read through one that never steps: pure. Small corrections are followed at once. A step is not, until
// it has stayed for `adoptAfterMs`: a clock that is wrong for a moment changes nothing, one that was put right is believed.

/** What a look found; `aheadMs` is how far the source is, or was, ahead of the time in force. */
export type StepReport = {
  readonly kind: "stepped" | "went back" | "adopted";
  readonly aheadMs: number;
};

/** More than what time servers correct at once on a machine that keeps time, less than a quarter of any lease. */
export const followMs = 1_000;
/** Longer than a wrong time server or a test of the clock lasts, shorter than receivers and second factors bear. */
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

  /** The source shows another time. */
  get isStepped(): boolean {
    return this.#step !== null;
  }

  /** The source showed `sourceMs`, or up to `precisionMs` more, at `monotonicMs`. Null: nothing to report. */
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
