// How often something may be tried: passwords, codes, links. Counted in the database, so that
// neither a restart nor a second platform gives another round of tries. Who is counted is kept as a
// hash only.
import { createHash } from "node:crypto";
import { Fault } from "#lib/fault.ts";
import type { Db } from "#store/database.ts";
import { giveBackAttempt, takeAttempt } from "./attempt-store.ts";
import type { Foundation } from "#store/foundation.ts";

/** One thing that is counted: at most `max` within `windowMs` from the first. */
export type Limit = { readonly kind: string; readonly max: number; readonly windowMs: number };

const minuteMs = 60_000;

/** What is limited. The numbers are for people who mistype, not for programs that guess. */
export const limits = {
  /** Several people may share an address. */
  signInAddress: { kind: "sign-in address", max: 50, windowMs: 15 * minuteMs },
  signInAccount: { kind: "sign-in account", max: 10, windowMs: 15 * minuteMs },
  /** By address of mail, and by the address that asks. */
  resetAccount: { kind: "reset account", max: 5, windowMs: 60 * minuteMs },
  resetAddress: { kind: "reset address", max: 30, windowMs: 60 * minuteMs },
  /** Each may be a new row that stays. */
  signUpAddress: { kind: "sign-up address", max: 10, windowMs: 60 * minuteMs },
  /** Passwords and codes that are asked for again by people who are signed in, by person. */
  confirm: { kind: "confirm", max: 10, windowMs: 15 * minuteMs },
  /** Codes for one second step of a sign-in, which does not last longer. */
  challenge: { kind: "challenge", max: 5, windowMs: 10 * minuteMs },
  /** Links and visits to a provider, by device or address. */
  secretAddress: { kind: "secret address", max: 300, windowMs: 15 * minuteMs },
} as const satisfies Record<string, Limit>;

/** Counts tries. */
export class AttemptLimits {
  readonly #parts: Pick<Foundation, "db" | "clock">;

  constructor(parts: Pick<Foundation, "db" | "clock">) {
    this.#parts = parts;
  }

  /** Counts one try. Throws `Fault("rate_limited")` with the seconds until there is room again. */
  async take(limit: Limit, who: string): Promise<void> {
    const retryAfterSeconds = await this.isTaken(limit, who);
    if (retryAfterSeconds === null) return;
    const text = `There were too many attempts; try again in ${retryAfterSeconds} s.`;
    throw new Fault("rate_limited", text, { retryAfterSeconds });
  }

  /**
   * As `take`, but returns the seconds until the next attempt is allowed, or null when one is
   * allowed now. `db`: a transaction that the count is part of.
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
    return used <= max ? null : Math.max(1, Math.ceil((endsAt.getTime() - now) / 1000));
  }

  /** Counts one try at `work`, which is given back when it succeeds. Throws as `take` does. */
  async counted<Result>(limit: Limit, who: string, work: () => Promise<Result>): Promise<Result> {
    await this.take(limit, who);
    const done = await work();
    await this.giveBack(limit, who);
    return done;
  }

  /** What was right was no try. */
  async giveBack({ kind }: Limit, who: string): Promise<void> {
    await giveBackAttempt(this.#parts.db, keyOf(kind, who));
  }
}

function keyOf(kind: string, who: string): string {
  return createHash("sha256").update(`${kind}\0${who}`).digest("base64url");
}
