// Where tokens of requests come in, at the API and the proxy: who they belong to, how often bad ones may be tried, and when
// and from where good ones were used. A token that is known to be valid goes on whatever its address has done.
import type { Clock } from "#lib/clock.ts";
import { networkOf } from "#lib/client-address.ts";
import type { Fault } from "#lib/fault.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import type { Caller } from "./caller.ts";
import type { TokenCheck } from "./token-check.ts";
import type { TokenUses } from "./token-uses.ts";

/** What the door asks of `TokenCheck`. */
type Check = Pick<TokenCheck, "cached" | "check" | "wasValid" | "endedId">;

/** Null: the token is not valid. A fault: too many bad ones were sent. */
export type Authentication = Caller | Fault | null;

/** One for the platform. */
export class Authenticator {
  readonly #check: Check;
  readonly #uses: Pick<TokenUses, "note">;
  readonly #failed: RateLimit;

  constructor(parts: {
    readonly check: Check;
    readonly uses: Pick<TokenUses, "note">;
    /** Failed tries of one address, or with one token that has ended, within a minute. */
    readonly failedPerMinute: number;
    readonly clock: Clock;
  }) {
    this.#check = parts.check;
    this.#uses = parts.uses;
    this.#failed = new RateLimit({ max: parts.failedPerMinute, clock: parts.clock, text: tooManyBad });
  }

  /** At once; undefined when only `check` can tell. Touches no database. */
  cached(token: string, address: string): Authentication | undefined {
    const caller = this.#check.cached(token);
    if (caller === null) return this.#refuse(token, address);
    if (caller !== undefined) return this.#admit(caller, address);
    return this.#check.wasValid(token) ? undefined : (this.#failed.refusal(networkOf(address)) ?? undefined);
  }

  /** Rejects when the database does not answer. */
  async check(token: string, address: string): Promise<Authentication> {
    const judged = this.cached(token, address);
    if (judged !== undefined) return judged;
    const caller = await this.#check.check(token);
    return caller === null ? this.#refuse(token, address) : this.#admit(caller, address);
  }

  #admit(caller: Caller, address: string): Caller {
    if (caller.kind !== "person") this.#uses.note(caller, address);
    return caller;
  }

  /** A token that was ours is counted by itself: others at its address, behind one gateway, must not suffer for it. */
  #refuse(token: string, address: string): Fault | null {
    const key = this.#check.endedId(token) ?? networkOf(address);
    const refusal = this.#failed.refusal(key);
    if (refusal === null) this.#failed.tryTake(key);
    return refusal;
  }
}

function tooManyBad(_used: number, seconds: number): string {
  return `Too many invalid tokens were sent within a minute; try again in ${seconds} s.`;
}
