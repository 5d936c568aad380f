// Limits how often passwords, codes and links may be tried. The counts are in the database, so that
// neither a restart nor a second platform allows more attempts. The database has only a hash of the
// person or address whose attempts are counted.
import { createHash } from "node:crypto";
import { Fault } from "#lib/fault.ts";
import type { Db } from "#store/database.ts";
import { giveBackAttempt, takeAttempt } from "./attempt-store.ts";
import type { Foundation } from "#store/foundation.ts";

/** A kind of attempt: at most `max` are allowed within `windowMs` of the first. */
export type Limit = { readonly kind: string; readonly max: number; readonly windowMs: number };

const minuteMs = 60_000;

/** All limits: high enough for people who mistype, too low for programs that guess. */
export const limits = {
  /** Sign-ins, counted by network address, which several people may share. */
  signInAddress: { kind: "sign-in address", max: 50, windowMs: 15 * minuteMs },
  /** Sign-ins, counted by account. */
  signInAccount: { kind: "sign-in account", max: 10, windowMs: 15 * minuteMs },
  /** Requests to reset a password, counted by email address. */
  resetAccount: { kind: "reset account", max: 5, windowMs: 60 * minuteMs },
  /** Requests to reset a password, counted by network address. */
  resetAddress: { kind: "reset address", max: 30, windowMs: 60 * minuteMs },
  /** Sign-ups, counted by network address: each one may add a person, who is never deleted. */
  signUpAddress: { kind: "sign-up address", max: 10, windowMs: 60 * minuteMs },
  /** Passwords and codes with which a signed-in person confirms an action, counted by person. */
  confirm: { kind: "confirm", max: 10, windowMs: 15 * minuteMs },
  /** Codes for one challenge of a sign-in, which is valid for the same time. */
  challenge: { kind: "challenge", max: 5, windowMs: 10 * minuteMs },
  /** Links and visits to a provider, counted by device or network address. */
  secretAddress: { kind: "secret address", max: 300, windowMs: 15 * minuteMs },
} as const satisfies Record<string, Limit>;

/** Counts attempts, and refuses those beyond a limit. */
export class AttemptLimits {
  readonly #parts: Pick<Foundation, "db" | "clock">;

  constructor(parts: Pick<Foundation, "db" | "clock">) {
    this.#parts = parts;
  }

  /**
   * Counts one attempt. Throws `Fault("rate_limited")` with the seconds until the next attempt is
   * allowed.
   */
  async take(limit: Limit, who: string): Promise<void> {
    const retryAfterSeconds = await this.isTaken(limit, who);
    if (retryAfterSeconds === null) return;
    const text = `There were too many attempts; try again in ${retryAfterSeconds} s.`;
    throw new Fault("rate_limited", text, { retryAfterSeconds });
  }

  /**
   * Counts one attempt. Returns null when it is allowed, and otherwise the seconds until the next
   * attempt is allowed. `db` may be a transaction, which the count is then part of.
   */
  async isTaken(
    { kind, max, windowMs }: Limit,
    who: string,
    db: Db = this.#parts.db,
  ): Promise<number | null> {
    const now = this.#parts.clock.now();
    const { used, endsAt } = await takeAttempt(db, {
      key: keyOf(kind, who),
      at: new Date(now),
      endsAt: new Date(now + windowMs),
      max,
    });
    if (used <= max) return null;
    const secondsLeft = Math.ceil((endsAt.getTime() - now) / 1000);
    return Math.max(1, secondsLeft);
  }

  /** Counts one attempt, and takes it back when `work` succeeds. Throws as `take` and `work` do. */
  async counted<Result>(limit: Limit, who: string, work: () => Promise<Result>): Promise<Result> {
    await this.take(limit, who);
    const result = await work();
    await this.giveBack(limit, who);
    return result;
  }

  /** Takes back an attempt that succeeded: only failures count. */
  async giveBack({ kind }: Limit, who: string): Promise<void> {
    await giveBackAttempt(this.#parts.db, keyOf(kind, who));
  }
}

function keyOf(kind: string, who: string): string {
  return createHash("sha256").update(`${kind}\0${who}`).digest("base64url");
}
