// Finds the owner of a token. The owner of a known token is in memory; a new token is verified and
// looked up in the database. Notifications announce revocations, so the cache is never stale for
// long.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { LruMap } from "#lib/lru-map.ts";
import type { Clock } from "#lib/clock.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Notifications } from "#store/notify.ts";
import type { Caller } from "./caller.ts";
import type { SigningKeys } from "./keys.ts";
import { SignedClaims, type Claims, type PersonClaims } from "./token-claims.ts";
import { tokenLookup, type Found, type Lookup } from "./token-lookup.ts";

export type TokenCheckOptions = Pick<Foundation, "db" | "clock"> & {
  readonly keys: SigningKeys;
  readonly notifications: Pick<Notifications, "listen">;
  /** Looks up sessions of people. */
  readonly people: Lookup<PersonClaims>;
  /** The size of the cache of valid tokens. */
  readonly knownMax?: number;
};

/** How long a token is refused without a check, and the token's id if the platform issued it. */
type Refused = {
  /** When the token is checked again, by `Clock.monotonicMs`. */
  readonly untilMs: number;
  /** The id of the token, or of its person; null: the platform did not sign it. */
  readonly endedId: string | null;
};

/** The platform's tokens have about 700 characters; a much longer one is from elsewhere. */
const tokenLengthMax = 4_096;
/** The size of the cache of valid tokens, if the options name none. */
const knownMax = 10_000;
/** For how long a bad token is refused without another check. */
const refusedMs = 5_000;
/** The maximum number of remembered bad tokens: few, since anybody can make them up. */
const refusedMax = 1_000;
/** How long the lookup of a token that was valid before may take; after that, the cache decides. */
const lookupMsMax = 2_000;
/** The pause before the next lookup if the database has not answered. */
const lookupPauseMs = 5_000;
/** Distinguishes ids of tokens from ids of signing keys, which have no dashes. */
const tokenIdForm = /^[0-9a-f]{8}-/;

/** Checks tokens. Create one per platform; `close()` ends its listening. */
export class TokenCheck {
  readonly #clock: Clock;
  readonly #claims: SignedClaims;
  readonly #lookUp: (claims: Claims) => Promise<Found | null>;
  /** The owners of valid tokens, which are accepted without another lookup. */
  readonly #known: LruMap<string, Found>;
  /**
   * The owners of tokens that were valid at their last lookup. They stay here when a new lookup is
   * due. Null: the token has changed since its last lookup.
   */
  readonly #lastValid: LruMap<string, Found | null>;
  readonly #refused = new LruMap<string, Refused>(refusedMax);
  readonly #runningChecks = new Map<string, Promise<Caller | null>>();
  readonly #endListening: readonly (() => void)[];
  /**
   * The number of changes of tokens and people so far. The result of a lookup is not used if the
   * number has increased meanwhile.
   */
  #changes = 0;

  constructor(options: TokenCheckOptions) {
    const { notifications, people } = options;
    const tokens = tokenLookup(options.db);
    this.#clock = options.clock;
    this.#claims = new SignedClaims(options);
    this.#lookUp = async (claims) =>
      claims.kind === "token" ? tokens(claims) : await people(claims);
    this.#known = new LruMap(options.knownMax ?? knownMax);
    this.#lastValid = new LruMap(options.knownMax ?? knownMax);
    this.#endListening = [
      notifications.listen("tokens", (id) => this.#tokensChanged(id)),
      notifications.listen("people", (id) =>
        this.#forget(isPerson, id, { hasChanged: id !== null }),
      ),
    ];
  }

  /**
   * The caller, or null for a token that is not valid; undefined when only `check` can tell.
   * Touches no database.
   */
  cached(token: string): Caller | null | undefined {
    const known = this.#known.get(token);
    if (known !== undefined) {
      if (this.#clock.now() < known.expiresAtMs) return known.caller;
      return this.#refuse(token, idOf(known.caller));
    }
    const refused = this.#refused.get(token);
    if (refused === undefined) return undefined;
    if (this.#clock.monotonicMs() < refused.untilMs) return null;
    this.#refused.delete(token);
    return undefined;
  }

  /** True for a token that was valid at its last lookup. */
  wasValid(token: string): boolean {
    return this.#lastValid.get(token) !== undefined;
  }

  /** The id of a token that was just refused because it was revoked or has expired; else null. */
  endedId(token: string): string | null {
    return this.#refused.get(token)?.endedId ?? null;
  }

  /**
   * The caller, or null when the token is foreign, altered, expired or revoked. Rejects when the
   * database does not answer.
   */
  check(token: string): Promise<Caller | null> {
    const found = this.cached(token);
    if (found !== undefined) return Promise.resolve(found);
    if (token.length > tokenLengthMax) return Promise.resolve(null);
    const check = (): Promise<Caller | null> =>
      this.#checkOrTrust(token).finally(() => this.#runningChecks.delete(token));
    return getOrInsert(this.#runningChecks, token, check);
  }

  /**
   * Forgets the person's tokens at once. Does not wait for the notification, since the person's
   * next call may come before it.
   */
  personChanged(personId: string): void {
    this.#forget(isPerson, personId, { hasChanged: true });
  }

  /** Stops listening for changes of tokens. */
  close(): void {
    for (const end of this.#endListening) end();
  }

  /**
   * Checks the token. While the database does not answer, a token that was valid at its last lookup
   * stays valid, unless it is known to have changed.
   */
  async #checkOrTrust(token: string): Promise<Caller | null> {
    const lastValid = this.#lastValid.get(token) ?? null;
    if (lastValid === null) return await this.#check(token);
    try {
      return await withDeadline(this.#clock, lookupMsMax, this.#check(token));
    } catch (error) {
      const hasChanged = this.#lastValid.get(token) !== lastValid;
      if (hasChanged || this.#clock.now() >= lastValid.expiresAtMs) throw error;
      // The token is accepted without a lookup for a while, and is then looked up again.
      this.#known.set(token, lastValid);
      this.#clock.after(lookupPauseMs, () => {
        if (this.#known.get(token) === lastValid) this.#known.delete(token);
      });
      return lastValid.caller;
    }
  }

  async #check(token: string): Promise<Caller | null> {
    for (;;) {
      const changes = this.#changes;
      const claims = await this.#claims.read(token);
      const found = claims === null ? null : await this.#find(claims);
      // Something has changed during the lookup, perhaps this token: looks again.
      if (changes !== this.#changes) continue;
      if (found === null) return this.#refuse(token, claims === null ? null : idOf(claims));
      this.#known.set(token, found);
      this.#lastValid.set(token, found);
      return found.caller;
    }
  }

  async #find(claims: Claims): Promise<Found | null> {
    if (this.#clock.now() >= claims.expiresAtMs) return null;
    const found = await this.#lookUp(claims);
    return found !== null && this.#clock.now() < found.expiresAtMs ? found : null;
  }

  /** Remembers that the token is bad, and returns null for the caller. */
  #refuse(token: string, endedId: string | null): null {
    this.#lastValid.delete(token);
    this.#known.delete(token);
    this.#refused.set(token, { untilMs: this.#clock.monotonicMs() + refusedMs, endedId });
    return null;
  }

  /**
   * Forgets a token that has changed, or all tokens: when `id` is that of a signing key, or null
   * because notifications were lost.
   */
  #tokensChanged(id: string | null): void {
    if (id !== null && tokenIdForm.test(id)) {
      return this.#forget((caller) => !isPerson(caller), id, { hasChanged: true });
    }
    this.#claims.keysChanged();
    this.#forget(() => true, null, { hasChanged: id !== null });
  }

  /**
   * Forgets the tokens of callers of one kind with this id, or of all callers of the kind (null).
   * `hasChanged` is false when the tokens may have changed, but need not have: then they stay valid
   * while the database does not answer.
   */
  #forget(
    isOfKind: (caller: Caller) => boolean,
    id: string | null,
    { hasChanged }: { hasChanged: boolean },
  ): void {
    this.#changes += 1;
    this.#refused.clear();
    const isAffected = (caller: Caller): boolean => {
      if (!isOfKind(caller)) return false;
      return id === null || idOf(caller) === id;
    };
    for (const [token, { caller }] of this.#known.entries())
      if (isAffected(caller)) this.#known.delete(token);
    if (!hasChanged) return;
    for (const [token, found] of this.#lastValid.entries()) {
      if (found !== null && isAffected(found.caller)) this.#lastValid.set(token, null);
    }
  }
}

function isPerson(caller: Caller): boolean {
  return caller.kind === "person";
}

function idOf(owner: Caller | Claims): string {
  return owner.kind === "person" ? owner.personId : owner.tokenId;
}
