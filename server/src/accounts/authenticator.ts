// Authenticates requests at the API and the proxy: finds a token's owner, limits failed tries, and
// notes when and from where valid tokens were used. A token known to be valid keeps working even if
// its address has sent many bad ones.
import type { Clock } from "#lib/clock.ts";
import { networkOf } from "#lib/client-address.ts";
import type { Fault } from "#lib/fault.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import type { Caller } from "./caller.ts";
import type { TokenCheck } from "./token-check.ts";
import type { TokenUses } from "./token-uses.ts";

/** The methods of `TokenCheck` that the authenticator calls. */
type Check = Pick<TokenCheck, "cached" | "check" | "wasValid" | "endedId">;

/** The caller; null when the token is not valid, a fault when too many invalid ones were sent. */
export type Authentication = Caller | Fault | null;

/** Authenticates callers by their tokens. A platform has one authenticator. */
export class Authenticator {
  readonly #check: Check;
  readonly #uses: Pick<TokenUses, "note">;
  /** Counts failed tries by network address, and by the id of a token that has ended. */
  readonly #failed: RateLimit;

  constructor(parts: {
    readonly check: Check;
    readonly uses: Pick<TokenUses, "note">;
    /** The maximum number of failed tries per minute from one address, or with one ended token. */
    readonly failedPerMinute: number;
    readonly clock: Clock;
  }) {
    this.#check = parts.check;
    this.#uses = parts.uses;
    this.#failed = new RateLimit({
      max: parts.failedPerMinute,
      clock: parts.clock,
      text: tooManyInvalid,
    });
  }

  /** Answers from memory, without the database; undefined when only `check` can answer. */
  cached(token: string, address: string): Authentication | undefined {
    const caller = this.#check.cached(token);
    if (caller === null) return this.#refuse(token, address);
    if (caller !== undefined) return this.#admit(caller, address);
    // Bad tokens from the same address must not keep a token that was valid from being looked up.
    if (this.#check.wasValid(token)) return undefined;
    return this.#failed.refusal(networkOf(address)) ?? undefined;
  }

  /**
   * Answers from memory or, if that is not enough, from the database. Rejects when the database
   * does not answer.
   */
  async check(token: string, address: string): Promise<Authentication> {
    const cached = this.cached(token, address);
    if (cached !== undefined) return cached;
    const caller = await this.#check.check(token);
    return caller === null ? this.#refuse(token, address) : this.#admit(caller, address);
  }

  #admit(caller: Caller, address: string): Caller {
    if (caller.kind !== "person") this.#uses.note(caller, address);
    return caller;
  }

  /**
   * Counts a failed try; returns a fault after too many. An ended token of ours is counted by its
   * own id, so that other clients behind the same gateway are not affected.
   */
  #refuse(token: string, address: string): Fault | null {
    const key = this.#check.endedId(token) ?? networkOf(address);
    const refusal = this.#failed.refusal(key);
    if (refusal === null) this.#failed.tryTake(key);
    return refusal;
  }
}

function tooManyInvalid(_used: number, seconds: number): string {
  return `Too many invalid tokens were sent within a minute; try again in ${seconds} s.`;
}
