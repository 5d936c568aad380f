// The clock of the platform: follows the machine's clock, but does not jump when that clock is set
// to another time (a "step"). See docs/decisions/0027-clock-steps.md.
import { sinceBootMs, systemClock, type Clock } from "./clock.ts";
import type { Log } from "./log.ts";
import { SteadyTime, type StepReport } from "./steady-time.ts";

/**
 * After the platform's time was changed, nothing is deleted for its age for this long, so that
 * somebody can see the log and correct the clock.
 */
const settleMs = 86_400_000;
/**
 * The maximum number of tries to read both clocks within the same millisecond: the process may
 * pause between the two readings.
 */
const readingsMax = 3;

/** Returns the time since boot with the machine's sleep, which `monotonicMs` leaves out. */
type Uptime = () => number;

/** A clock whose `now` follows monotonic time after a step of the machine's clock. */
export class SteadyClock implements Clock {
  readonly sleep: Clock["sleep"];
  readonly after: Clock["after"];
  readonly random: Clock["random"];
  /** The machine's clock, and its monotonic time. */
  readonly #base: Clock;
  readonly #uptime: Uptime;
  /** The platform's time, and the step that it does not follow yet. */
  readonly #time: SteadyTime;
  /** How long the machine has slept since this clock was created. */
  #sleptMs = 0;
  /**
   * Uptime minus monotonic time when this clock was created. The difference grows only while the
   * machine sleeps.
   */
  readonly #uptimeLeadAtStartMs: number;
  /** When `unsettle` was last called, by `monotonicMs`. */
  #unsettledAtMs = Number.NEGATIVE_INFINITY;
  /** Logs a step; does nothing until `watch` is called. */
  #report: (report: StepReport) => void = () => undefined;

  constructor(base: Clock = systemClock, uptimeMs: Uptime = sinceBootMs) {
    this.#base = base;
    this.#uptime = uptimeMs;
    this.sleep = (ms, signal) => base.sleep(ms, signal);
    this.after = (ms, run) => base.after(ms, run);
    this.random = () => base.random();
    this.#time = new SteadyTime(base.now(), base.monotonicMs());
    this.#uptimeLeadAtStartMs = this.#uptimeLeadMs();
  }

  now(): number {
    return Math.floor(this.exactMs());
  }

  /** Like `now`, with fractions of a millisecond. */
  exactMs(): number {
    const wallMs = this.#base.now();
    const monotonicMs = this.#elapsedMs();
    const aheadMs = wallMs - this.#time.at(monotonicMs);
    // The fast path, which is almost always taken, has the same result as `#readClocks`. `wallMs`
    // is in whole milliseconds, so without a step it is up to 1 ms behind the exact time.
    if (aheadMs <= 0 && aheadMs > -1 && !this.#time.isStepped) return wallMs - aheadMs;
    return this.#readClocks();
  }

  monotonicMs(): number {
    return this.#base.monotonicMs();
  }

  isSettled(): boolean {
    this.now();
    return !this.#time.isStepped && this.monotonicMs() - this.#unsettledAtMs >= settleMs;
  }

  /** Suspends the deletion of old data for a day, since the time may be wrong. */
  unsettle(): void {
    this.#unsettledAtMs = this.monotonicMs();
  }

  /** From now on, logs when the machine's clock steps, steps back, or is followed after a step. */
  watch(log: Log): void {
    this.#report = ({ kind, aheadMs }) =>
      log.warn({ kind, seconds: Math.round(aheadMs / 1000) }, textOf[kind]);
  }

  /** Compares the machine's clock with monotonic time, and returns the platform's time. */
  #readClocks(): number {
    let monotonicMs = this.#elapsedMs();
    for (let reading = 0; reading < readingsMax; reading++) {
      const wallMs = this.#base.now();
      const afterMs = this.#elapsedMs();
      const wasPaused = afterMs - monotonicMs >= 1;
      monotonicMs = afterMs;
      if (wasPaused) continue;
      // After a sleep, the machine's clock is ahead of monotonic time, which is not a step.
      const sleptMs = this.#sleptSoFar();
      monotonicMs += sleptMs - this.#sleptMs;
      this.#sleptMs = sleptMs;
      // The machine's clock is read in whole milliseconds, so the reading is precise to 1 ms.
      const report = this.#time.compare(wallMs, monotonicMs, 1);
      if (report?.kind === "adopted") this.unsettle();
      if (report !== null) this.#report(report);
      break;
    }
    return this.#time.at(monotonicMs);
  }

  /** Monotonic time plus the time asleep that is known so far. */
  #elapsedMs(): number {
    return this.#base.monotonicMs() + this.#sleptMs;
  }

  /** How long the machine has slept by now since this clock was created. */
  #sleptSoFar(): number {
    const sleptMs = this.#uptimeLeadMs() - this.#uptimeLeadAtStartMs;
    // Smaller differences are rounding: the machine reports its uptime in hundredths of a second.
    return sleptMs - this.#sleptMs > 100 ? sleptMs : this.#sleptMs;
  }

  #uptimeLeadMs(): number {
    return this.#uptime() - this.#base.monotonicMs();
  }
}

const textOf: Readonly<Record<StepReport["kind"], string>> = {
  stepped:
    "the machine's clock has jumped; the platform keeps its own time, and follows once the clock has been stable for ten minutes",
  "went back": "the machine's clock agrees with the platform's time again",
  adopted:
    "the platform's time follows the machine's clock; nothing is removed for its age for a day",
};

/** The clock of the platform. */
export const steadyClock = new SteadyClock();
