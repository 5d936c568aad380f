// The clock of the platform: the machine's clock without its steps. See
// docs/decisions/0027-clock-steps.md.
import { sinceBootMs, systemClock, type Clock } from "./clock.ts";
import type { Log } from "./log.ts";
import { SteadyTime, type StepReport } from "./steady-time.ts";

/**
 * How long removals for good pause after the platform's time was changed: time to see the report
 * and correct the clock.
 */
const settleMs = 86_400_000;
/**
 * Reads the clock again when it seems to have stepped: the process may have paused between two
 * readings.
 */
const readingsMax = 3;

/** Time since boot, including sleep, which `monotonicMs` leaves out. */
type Uptime = () => number;

/** A clock whose `now` follows monotonic time after a step of the machine's clock. */
export class SteadyClock implements Clock {
  readonly sleep: Clock["sleep"];
  readonly after: Clock["after"];
  readonly random: Clock["random"];
  readonly #base: Clock;
  readonly #uptime: Uptime;
  readonly #time: SteadyTime;
  /** How long the machine has slept since the start. */
  #sleptMs = 0;
  readonly #awakeMs: number;
  #unsettledAtMs = Number.NEGATIVE_INFINITY;
  #report: (report: StepReport) => void = () => undefined;

  constructor(base: Clock = systemClock, uptimeMs: Uptime = sinceBootMs) {
    this.#base = base;
    this.#uptime = uptimeMs;
    this.sleep = (ms, signal) => base.sleep(ms, signal);
    this.after = (ms, run) => base.after(ms, run);
    this.random = () => base.random();
    this.#time = new SteadyTime(base.now(), base.monotonicMs());
    this.#awakeMs = this.#beyondMonotonic();
  }

  now(): number {
    return Math.floor(this.exactMs());
  }

  /** Like `now`, with fractions of a millisecond. */
  exactMs(): number {
    const wallMs = this.#base.now();
    const monotonicMs = this.#elapsedMs();
    const behindMs = wallMs - this.#time.at(monotonicMs);
    // Fast path with the same result as a full look; almost always taken.
    if (behindMs <= 0 && behindMs > -1 && !this.#time.isStepped) return wallMs - behindMs;
    return this.#look();
  }

  monotonicMs(): number {
    return this.#base.monotonicMs();
  }

  isSettled(): boolean {
    this.now();
    return !this.#time.isStepped && this.monotonicMs() - this.#unsettledAtMs >= settleMs;
  }

  /** Pauses removals for good for a day: the time may be wrong. */
  unsettle(): void {
    this.#unsettledAtMs = this.monotonicMs();
  }

  /** Logs each step from now on. */
  watch(log: Log): void {
    this.#report = ({ kind, aheadMs }) =>
      log.warn({ kind, seconds: Math.round(aheadMs / 1000) }, textOf[kind]);
  }

  #look(): number {
    let monotonicMs = this.#elapsedMs();
    for (let reading = 0; reading < readingsMax; reading++) {
      const wallMs = this.#base.now();
      const afterMs = this.#elapsedMs();
      const isWhole = afterMs - monotonicMs < 1;
      monotonicMs = afterMs;
      if (!isWhole) continue;
      // Time asleep is not a step.
      const sleptMs = this.#sleptSoFar();
      monotonicMs += sleptMs - this.#sleptMs;
      this.#sleptMs = sleptMs;
      const report = this.#time.look(wallMs, monotonicMs, 1);
      if (report?.kind === "adopted") this.unsettle();
      if (report !== null) this.#report(report);
      break;
    }
    return this.#time.at(monotonicMs);
  }

  #elapsedMs(): number {
    return this.#base.monotonicMs() + this.#sleptMs;
  }

  #sleptSoFar(): number {
    // The machine reports its uptime in hundredths of a second.
    const sleptMs = this.#beyondMonotonic() - this.#awakeMs;
    return sleptMs - this.#sleptMs > 100 ? sleptMs : this.#sleptMs;
  }

  #beyondMonotonic(): number {
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
