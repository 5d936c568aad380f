// Who a token belongs to. A token that was seen before is answered from memory, at once; a new one is verified and
// looked up. Revocations come by notification, so that what is in memory is never out of date for long.
import { LruMap } from "#lib/lru-map.ts";
import type { Clock } from "#lib/clock.ts";
import type { Db } from "#store/database.ts";
import type { Notifications } from "#store/notify.ts";
import type { Caller } from "./caller.ts";
import type { SigningKeys } from "./keys.ts";
import { SignedClaims, type Claims, type PersonClaims } from "./token-claims.ts";
import { tokenLookup, type Found, type Lookup } from "./token-lookup.ts";

export type TokenCheckOptions = {
  readonly db: Db;
  readonly keys: SigningKeys;
  readonly notifications: Pick<Notifications, "listen">;
  readonly clock: Clock;
  /** Looks up sessions of people; without it their tokens are not valid. */
  readonly people?: Lookup<PersonClaims>;
  /** The most valid tokens to remember. */
  readonly knownMost?: number;
};

/** Our own are about 700 characters; anything much longer is not one. */
const tokenLengthMost = 4_096;
const knownMost = 10_000;
/** A client that repeats a bad token is answered from memory for this long; bad tokens are cheap to make, so few are kept. */
const refusedMs = 5_000;
const refusedMost = 1_000;

/** Checks tokens. Make one per platform; `close()` ends its listening. */
export class TokenCheck {
  readonly #clock: Clock;
  readonly #claims: SignedClaims;
  readonly #lookUp: (claims: Claims) => Promise<Found | null>;
  readonly #known: LruMap<string, Found>;
  /** Token → until when it is refused without a look. */
  readonly #refused = new LruMap<string, number>(refusedMost);
  readonly #running = new Map<string, Promise<Caller | null>>();
  readonly #endListening: readonly (() => void)[];
  /** Grows with each change of tokens and people, so that an answer that was on its way then is not remembered. */
  #changes = 0;

  constructor(options: TokenCheckOptions) {
    const { notifications, people } = options;
    const tokens = tokenLookup(options.db);
    this.#clock = options.clock;
    this.#claims = new SignedClaims(options);
    this.#lookUp = async (claims) => (claims.kind === "token" ? tokens(claims) : ((await people?.(claims)) ?? null));
    this.#known = new LruMap(options.knownMost ?? knownMost);
    this.#endListening = [
      notifications.listen("tokens", (id) => this.#forget((caller) => caller.kind !== "person", id)),
      notifications.listen("people", (id) => this.#forget((caller) => caller.kind === "person", id)),
    ];
  }

  /** The caller, or null for a token that is not valid; undefined when only `check` can tell. Touches no database. */
  cached(token: string): Caller | null | undefined {
    const known = this.#known.get(token);
    if (known !== undefined) {
      if (this.#clock.now() < known.expiresAtMs) return known.caller;
      this.#known.delete(token);
      return null;
    }
    const refusedUntilMs = this.#refused.get(token);
    if (refusedUntilMs === undefined) return undefined;
    if (this.#clock.monotonicMs() < refusedUntilMs) return null;
    this.#refused.delete(token);
    return undefined;
  }

  /** The caller, or null when the token is not one of ours, was altered, expired or revoked. Rejects when the database does not answer. */
  check(token: string): Promise<Caller | null> {
    const found = this.cached(token);
    if (found !== undefined) return Promise.resolve(found);
    if (token.length > tokenLengthMost) return Promise.resolve(null);
    const running = this.#running.get(token);
    if (running !== undefined) return running;
    const checking = this.#check(token).finally(() => this.#running.delete(token));
    this.#running.set(token, checking);
    return checking;
  }

  /** Ends listening. */
  close(): void {
    for (const end of this.#endListening) end();
  }

  async #check(token: string): Promise<Caller | null> {
    for (;;) {
      const changes = this.#changes;
      const found = await this.#find(token);
      // Somebody revoked a token meanwhile, maybe this one.
      if (changes !== this.#changes) continue;
      if (found === null) this.#refused.set(token, this.#clock.monotonicMs() + refusedMs);
      else this.#known.set(token, found);
      return found?.caller ?? null;
    }
  }

  async #find(token: string): Promise<Found | null> {
    const claims = await this.#claims.read(token);
    if (claims === null || this.#clock.now() >= claims.expiresAtMs) return null;
    const found = await this.#lookUp(claims);
    return found !== null && this.#clock.now() < found.expiresAtMs ? found : null;
  }

  /** Null: any of that sort may have changed. */
  #forget(isOfSort: (caller: Caller) => boolean, id: string | null): void {
    this.#changes += 1;
    this.#refused.clear();
    for (const [token, { caller }] of this.#known.entries()) {
      if (isOfSort(caller) && (id === null || idOf(caller) === id)) this.#known.delete(token);
    }
  }
}

function idOf(caller: Caller): string {
  return caller.kind === "person" ? caller.personId : caller.tokenId;
}
