// Replaces `clock_timestamp()` in the platform's statements by a parameter, since the clock of the
// database may step. The parameter is the platform's time if the database's clock agrees with it,
// otherwise the database's time without its steps. So the next platform on this database, on any
// machine, continues by the same clock.
import {
  PostgresDialect,
  PostgresQueryCompiler,
  type CompiledQuery,
  type PostgresDialectConfig,
  type QueryId,
  type RootOperationNode,
} from "kysely";
import type { Log } from "#lib/log.ts";
import type { SteadyClock } from "#lib/steady-clock.ts";
import { followMs, SteadyTime } from "#lib/steady-time.ts";

/** How often the database is asked for its clock while it is in use. */
const askEveryMs = 10_000;
/** How long to wait before asking again when there is no answer. */
const answerWaitMs = 60_000;
/** An answer that took longer is too imprecise. */
const answerMsMax = 500;
/**
 * For so long after a jump of the time, lease ends are compared with the old time: until then every
 * lease is extended, or has expired.
 */
const leaseHoldMs = 120_000;
/**
 * The platform's time and the database's may agree at one reading and not at the next, which moves
 * the time by about `followMs`. Only more than twice that counts as a jump.
 */
const jumpMsMin = 2 * followMs;

export type DatabaseTimeOptions = {
  readonly clock: SteadyClock;
  readonly log: Log;
  /** Asks the database for its clock, in milliseconds since the epoch. */
  readonly ask: () => Promise<number>;
};

/** The time of one database; reads the database's clock now and then while in use. */
export class DatabaseTime {
  readonly #options: DatabaseTimeOptions;
  /** The database's time without its steps; null before the first answer. */
  #databaseTime: SteadyTime | null = null;
  /** When to ask the database for its clock again, in monotonic time. */
  #nextAskMs = 0;
  /** The time that the latest call of `read` returned; 0 before the first call. */
  #lastMs = 0;
  /** When that call was, in monotonic time. */
  #lastMonotonicMs = 0;
  /** The last jump, and until when leases are compared with the time before it. */
  #jump: { readonly byMs: number; readonly untilMs: number } | null = null;

  constructor(options: DatabaseTimeOptions) {
    this.#options = options;
  }

  /**
   * Called when the database has just answered with its clock. It was asked at `askedMs` of
   * monotonic time.
   */
  saw(databaseMs: number, askedMs: number): void {
    const { clock, log } = this.#options;
    const monotonicMs = clock.monotonicMs();
    const tookMs = monotonicMs - askedMs;
    this.#nextAskMs = monotonicMs + askEveryMs;
    if (this.#databaseTime === null) {
      // The best guess is that the database read its clock halfway between question and answer.
      this.#databaseTime = new SteadyTime(databaseMs, askedMs + tookMs / 2);
    } else if (tookMs <= answerMsMax) {
      // The database read its clock between the question and now. So at `askedMs` it showed
      // `databaseMs - tookMs`, or up to `tookMs` more.
      const report = this.#databaseTime.compare(databaseMs - tookMs, askedMs, tookMs);
      if (report === null) return;
      const { kind, aheadMs } = report;
      log.warn(
        { kind, seconds: Math.round(aheadMs / 1000) },
        "the database's clock has stepped, or agrees again",
      );
    }
  }

  /** The current time, and the time to compare lease ends with, in PostgreSQL's format. */
  read(): { readonly now: string; readonly leases: string } {
    const { clock } = this.#options;
    const monotonicMs = clock.monotonicMs();
    if (monotonicMs >= this.#nextAskMs) this.#askDatabase(monotonicMs);
    const platformMs = clock.exactMs();
    const databaseMs = this.#databaseTime?.at(monotonicMs) ?? platformMs;
    // The platform's time counts while the database's clock agrees with it.
    const agreedMs = Math.abs(databaseMs - platformMs) <= followMs ? platformMs : databaseMs;
    const movedMs = this.#movedMs(agreedMs, monotonicMs);
    if (Math.abs(movedMs) > jumpMsMin)
      this.#jump = { byMs: movedMs, untilMs: monotonicMs + leaseHoldMs };
    const isJumpBack = movedMs < -jumpMsMin;
    // Small corrections never move the time backwards.
    const nowMs = isJumpBack ? agreedMs : Math.max(agreedMs, this.#lastMs);
    this.#lastMs = nowMs;
    this.#lastMonotonicMs = monotonicMs;
    return { now: timeText(nowMs), leases: timeText(nowMs - this.#jumpMs(monotonicMs)) };
  }

  /** How far the last jump has moved the time; 0 once lease ends are compared with the new time. */
  #jumpMs(monotonicMs: number): number {
    if (this.#jump === null || monotonicMs >= this.#jump.untilMs) return 0;
    return this.#jump.byMs;
  }

  /** How far the time has moved away from monotonic time since the last reading. */
  #movedMs(agreedMs: number, monotonicMs: number): number {
    if (this.#lastMs === 0) return 0;
    const passedMs = monotonicMs - this.#lastMonotonicMs;
    return agreedMs - this.#lastMs - passedMs;
  }

  /**
   * Asks the database for its clock. Errors are ignored: other statements report an unreachable
   * database.
   */
  #askDatabase(askedMs: number): void {
    this.#nextAskMs = askedMs + answerWaitMs;
    this.#options.ask().then(
      (databaseMs) => this.saw(databaseMs, askedMs),
      () => undefined,
    );
  }
}

/**
 * The dialect that replaces `clock_timestamp()`, and `lease_clock()` for lease ends, with values of
 * `time`.
 */
export class TimedDialect extends PostgresDialect {
  readonly #time: DatabaseTime;

  constructor(config: PostgresDialectConfig, time: DatabaseTime) {
    super(config);
    this.#time = time;
  }

  override createQueryCompiler(): PostgresQueryCompiler {
    return new TimedCompiler(this.#time);
  }
}

class TimedCompiler extends PostgresQueryCompiler {
  readonly #time: DatabaseTime;

  constructor(time: DatabaseTime) {
    super();
    this.#time = time;
  }

  override compileQuery(node: RootOperationNode, queryId: QueryId): CompiledQuery {
    const compiled = super.compileQuery(node, queryId);
    if (!/clock_timestamp\(\)|lease_clock\(\)/.test(compiled.sql)) return compiled;
    const { now, leases } = this.#time.read();
    const parameters = [...compiled.parameters];
    let text = compiled.sql;
    for (const [name, value] of [
      ["clock_timestamp()", now],
      ["lease_clock()", leases],
    ] as const) {
      if (!text.includes(name)) continue;
      parameters.push(value);
      text = text.replaceAll(name, `$${parameters.length}::timestamptz`);
    }
    return { ...compiled, sql: text, parameters };
  }
}

/** A time as text with microseconds, which a `Date` cannot hold. */
function timeText(ms: number): string {
  const whole = Math.floor(ms);
  const micros = Math.floor((ms - whole) * 1000);
  return `${new Date(whole).toISOString().slice(0, -1)}${String(micros).padStart(3, "0")}Z`;
}
