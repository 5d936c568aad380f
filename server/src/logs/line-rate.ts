// Limits how fast the lines of each app are stored: a burst as large as a start or a crash prints,
// and then the rate of a normal app. An app that prints faster slows down neither the calls nor the
// database of other apps.
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";

/** How many lines and characters may be stored at once, and per second after that. */
export type LineRateLimits = {
  readonly linesAtOnce: number;
  readonly linesPerSecond: number;
  readonly charactersAtOnce: number;
  readonly charactersPerSecond: number;
};

/** How much an app may store at `atMs`; negative: it has stored more than its rate allows. */
type Account = { lines: number; characters: number; atMs: number };

/** How many apps are remembered; a forgotten app starts with a full burst. */
const accountsMax = 10_000;

/** Keeps the rate of each app. */
export class LineRate {
  readonly #limits: LineRateLimits;
  readonly #clock: Clock;
  readonly #accounts = new LruMap<AppId, Account>(accountsMax);

  constructor(options: { readonly limits: LineRateLimits; readonly clock: Clock }) {
    this.#limits = options.limits;
    this.#clock = options.clock;
  }

  /** How many milliseconds these lines have to wait before they may be stored. */
  waitMs(appId: AppId, lines: number, characters: number): number {
    const { linesPerSecond, charactersPerSecond } = this.#limits;
    const account = this.#accountOf(appId);
    const waitSeconds = Math.max(
      (lines - account.lines) / linesPerSecond,
      (characters - account.characters) / charactersPerSecond,
    );
    return Math.max(0, Math.ceil(waitSeconds * 1000));
  }

  /** Counts lines that are being stored, and all their characters. */
  take(appId: AppId, lines: number, characters: number): void {
    const account = this.#accountOf(appId);
    const { linesAtOnce, charactersAtOnce } = this.#limits;
    // The debt is bounded, so that an app that becomes quiet can soon print again.
    account.lines = Math.max(account.lines - lines, -linesAtOnce);
    account.characters = Math.max(account.characters - characters, -charactersAtOnce);
  }

  /** The app's account, with the lines and characters that it has gained until now. */
  #accountOf(appId: AppId): Account {
    const { linesAtOnce, linesPerSecond, charactersAtOnce, charactersPerSecond } = this.#limits;
    const nowMs = this.#clock.monotonicMs();
    const account = this.#accounts.get(appId) ?? {
      lines: linesAtOnce,
      characters: charactersAtOnce,
      atMs: nowMs,
    };
    const seconds = (nowMs - account.atMs) / 1000;
    account.lines = Math.min(linesAtOnce, account.lines + seconds * linesPerSecond);
    account.characters = Math.min(
      charactersAtOnce,
      account.characters + seconds * charactersPerSecond,
    );
    account.atMs = nowMs;
    this.#accounts.set(appId, account);
    return account;
  }
}
