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

type Refused = { readonly untilMs: number; readonly endedId: string | null };

/** Our own are about 700 characters; anything much longer is not one. */
const tokenLengthMost = 4_096;
const knownMost = 10_000;
/** A client that repeats a bad token is answered from memory for this long; bad tokens are cheap to make, so few are kept. */
const refusedMs = 5_000;
const refusedMost = 1_000;
/** Ids of signing keys have no dashes. */
const tokenIdForm = /^[0-9a-f]{8}-/;

/** Checks tokens. Make one per platform; `close()` ends its listening. */
export class TokenCheck {
  readonly #clock: Clock;
  readonly #claims: SignedClaims;
  readonly #lookUp: (claims: Claims) => Promise<Found | null>;
  readonly #known: LruMap<string, Found>;
  /** Tokens that were valid when they were looked at last, also when that must be done again. */
  readonly #seen: LruMap<string, true>;
  readonly #refused = new LruMap<string, Refused>(refusedMost);
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
    this.#seen = new LruMap(options.knownMost ?? knownMost);
    this.#endListening = [
      notifications.listen("tokens", (id) => this.#tokensChanged(id)),
      notifications.listen("people", (id) => this.#forget((caller) => caller.kind === "person", id)),
    ];
  }

  /** The caller, or null for a token that is not valid; undefined when only `check` can tell. Touches no database. */
  cached(token: string): Caller | null | undefined {
    const known = this.#known.get(token);
    if (known !== undefined) {
      if (this.#clock.now() < known.expiresAtMs) return known.caller;
      this.#known.delete(token);
      return this.#refuse(token, idOf(known.caller));
    }
    const refused = this.#refused.get(token);
    if (refused === undefined) return undefined;
    if (this.#clock.monotonicMs() < refused.untilMs) return null;
    this.#refused.delete(token);
    return undefined;
  }

  /** True for a token that was valid when it was looked at last. */
  wasValid(token: string): boolean {
    return this.#seen.get(token) === true;
  }

  /** Of a token that was just refused: the id in it when it is signed by us, but was revoked or has expired; else null. */
  endedId(token: string): string | null {
    return this.#refused.get(token)?.endedId ?? null;
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

  /** Forgets what is remembered of a person now, not only when the notification comes: they may ask again at once. */
  personChanged(personId: string): void {
    this.#forget((caller) => caller.kind === "person", personId);
  }

  /** Ends listening. */
  close(): void {
    for (const end of this.#endListening) end();
  }

  async #check(token: string): Promise<Caller | null> {
    for (;;) {
      const changes = this.#changes;
      const claims = await this.#claims.read(token);
      const found = claims === null ? null : await this.#find(claims);
      // Somebody revoked a token meanwhile, maybe this one.
      if (changes !== this.#changes) continue;
      if (found === null) return this.#refuse(token, claims === null ? null : claimedId(claims));
      this.#known.set(token, found);
      this.#seen.set(token, true);
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
    this.#refused.set(token, { untilMs: this.#clock.monotonicMs() + refusedMs, endedId });
    return null;
  }

  /** A token, or a signing key, which other tokens may be signed by. */
  #tokensChanged(id: string | null): void {
    if (id !== null && tokenIdForm.test(id)) return this.#forget((caller) => caller.kind !== "person", id);
    this.#claims.keysChanged();
    this.#forget(() => true, null);
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

function claimedId(claims: Claims): string {
  return claims.kind === "person" ? claims.personId : claims.tokenId;
}
