// Finds the owner of a token. A known token is answered from memory, at once; a new one is verified
// and looked up. Notifications announce revocations, so that the cache is never stale for long.
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

type Refused = { readonly untilMs: number; readonly endedId: string | null };

/** Our own are about 700 characters; a much longer token is not ours. */
const tokenLengthMax = 4_096;
const knownMax = 10_000;
/**
 * How long a repeated bad token is refused from memory; bad tokens are cheap to make, so few are
 * kept.
 */
const refusedMs = 5_000;
const refusedMax = 1_000;
/**
 * The timeout of the lookup for a recently valid token, and the pause before the next one if the
 * database does not answer.
 */
const keepAfterMs = 2_000;
const lookAgainMs = 5_000;
/** Ids of signing keys have no dashes. */
const tokenIdForm = /^[0-9a-f]{8}-/;

/** Checks tokens. Create one per platform; `close()` ends its listening. */
export class TokenCheck {
  readonly #clock: Clock;
  readonly #claims: SignedClaims;
  readonly #lookUp: (claims: Claims) => Promise<Found | null>;
  readonly #known: LruMap<string, Found>;
  /**
   * Tokens that were valid at their last lookup, even if another is due; null: they have changed
   * since.
   */
  readonly #seen: LruMap<string, Found | null>;
  readonly #refused = new LruMap<string, Refused>(refusedMax);
  readonly #running = new Map<string, Promise<Caller | null>>();
  readonly #endListening: readonly (() => void)[];
  /**
   * Incremented with each change of tokens and people, so that a lookup that was under way is not
   * cached.
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
    this.#seen = new LruMap(options.knownMax ?? knownMax);
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
    return this.#seen.get(token) !== undefined;
  }

  /**
   * For a token that was just refused: its id if we signed it and it was revoked or has expired;
   * otherwise null.
   */
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
      this.#checkOrKeep(token).finally(() => this.#running.delete(token));
    return getOrInsert(this.#running, token, check);
  }

  /**
   * Clears the person's cache entries now, before the notification arrives: they may call again at
   * once.
   */
  personChanged(personId: string): void {
    this.#forget(isPerson, personId, { hasChanged: true });
  }

  /** Ends listening. */
  close(): void {
    for (const end of this.#endListening) end();
  }

  /**
   * A token that was valid and has no known change stays valid while the database does not answer.
   */
  async #checkOrKeep(token: string): Promise<Caller | null> {
    const seen = this.#seen.get(token) ?? null;
    if (seen === null) return await this.#check(token);
    try {
      return await withDeadline(this.#clock, keepAfterMs, this.#check(token));
    } catch (error) {
      if (this.#seen.get(token) !== seen || this.#clock.now() >= seen.expiresAtMs) throw error;
      this.#known.set(token, seen);
      const isKept = (): boolean => this.#known.get(token) === seen;
      this.#clock.after(lookAgainMs, () => void (isKept() && this.#known.delete(token)));
      return seen.caller;
    }
  }

  async #check(token: string): Promise<Caller | null> {
    for (;;) {
      const changes = this.#changes;
      const claims = await this.#claims.read(token);
      const found = claims === null ? null : await this.#find(claims);
      // A token was revoked meanwhile, maybe this one.
      if (changes !== this.#changes) continue;
      if (found === null) return this.#refuse(token, claims === null ? null : idOf(claims));
      this.#known.set(token, found);
      this.#seen.set(token, found);
      return found.caller;
    }
  }

  async #find(claims: Claims): Promise<Found | null> {
    if (this.#clock.now() >= claims.expiresAtMs) return null;
    const found = await this.#lookUp(claims);
    return found !== null && this.#clock.now() < found.expiresAtMs ? found : null;
  }

  #refuse(token: string, endedId: string | null): null {
    this.#seen.delete(token);
    this.#known.delete(token);
    this.#refused.set(token, { untilMs: this.#clock.monotonicMs() + refusedMs, endedId });
    return null;
  }

  /** A token has changed, or a signing key, which may have signed other tokens. */
  #tokensChanged(id: string | null): void {
    if (id !== null && tokenIdForm.test(id)) {
      return this.#forget((caller) => !isPerson(caller), id, { hasChanged: true });
    }
    this.#claims.keysChanged();
    this.#forget(() => true, null, { hasChanged: id !== null });
  }

  /**
   * Id null: all callers of that sort. Without `hasChanged` a change is only possible, not known.
   */
  #forget(
    isOfSort: (caller: Caller) => boolean,
    id: string | null,
    { hasChanged }: { hasChanged: boolean },
  ): void {
    this.#changes += 1;
    this.#refused.clear();
    const isMeant = (caller: Caller): boolean =>
      isOfSort(caller) && (id === null || idOf(caller) === id);
    for (const [token, { caller }] of this.#known.entries())
      if (isMeant(caller)) this.#known.delete(token);
    if (!hasChanged) return;
    for (const [token, found] of this.#seen.entries()) {
      if (found !== null && isMeant(found.caller)) this.#seen.set(token, null);
    }
  }
}

function isPerson(caller: Caller): boolean {
  return caller.kind === "person";
}

function idOf(named: Caller | Claims): string {
  return named.kind === "person" ? named.personId : named.tokenId;
}
