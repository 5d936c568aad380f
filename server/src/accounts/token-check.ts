// Who a token belongs to. A token that was seen before is answered from memory, at once; a new one is verified and
// looked up. Revocations come by notification, so that what is in memory is never out of date for long.
import { compactVerify, decodeProtectedHeader } from "jose";
import { LruMap } from "#lib/lru-map.ts";
import type { Clock } from "#lib/clock.ts";
import type { TokenId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { Notifications } from "#store/notify.ts";
import { tokenById, type TokenRow } from "./account-store.ts";
import type { Caller, TokenCaller } from "./caller.ts";
import { signatureAlgorithm, type SigningKeys } from "./keys.ts";

type Known = { readonly caller: Caller; readonly expiresAtMs: number };

type Claims = { readonly jti: string; readonly projectId: string | null; readonly expiresAtMs: number };

export type TokenCheckOptions = {
  readonly db: Db;
  readonly keys: SigningKeys;
  readonly notifications: Pick<Notifications, "listen">;
  readonly clock: Clock;
  /** The most valid tokens to remember. */
  readonly knownMost?: number;
};

/** Our own are about 700 characters; anything much longer is not one. */
const tokenLengthMost = 4_096;
const knownMost = 10_000;
/** A client that repeats a bad token is answered from memory for this long; bad tokens are cheap to make, so few are kept. */
const refusedMs = 5_000;
const refusedMost = 1_000;
/** A token may be signed by a key that another platform has just made; looking for it must not become a way to load the database. */
const keyLookMs = 1_000;

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Checks tokens. Make one per platform; `close()` ends its listening. */
export class TokenCheck {
  readonly #options: TokenCheckOptions;
  readonly #known: LruMap<string, Known>;
  /** Token → until when it is refused without a look. */
  readonly #refused = new LruMap<string, number>(refusedMost);
  readonly #running = new Map<string, Promise<Caller | null>>();
  readonly #endListening: () => void;
  /** Grows with each change of tokens, so that an answer that was on its way then is not remembered. */
  #changes = 0;
  #lastKeyLookMs = Number.NEGATIVE_INFINITY;

  constructor(options: TokenCheckOptions) {
    this.#options = options;
    this.#known = new LruMap(options.knownMost ?? knownMost);
    this.#endListening = options.notifications.listen("tokens", (payload) => this.#forget(payload));
  }

  /** The caller, or null for a token that is not valid; undefined when only `check` can tell. Touches no database. */
  cached(token: string): Caller | null | undefined {
    const known = this.#known.get(token);
    if (known !== undefined) {
      if (this.#options.clock.now() < known.expiresAtMs) return known.caller;
      this.#known.delete(token);
      return null;
    }
    const refusedUntilMs = this.#refused.get(token);
    if (refusedUntilMs === undefined) return undefined;
    if (this.#options.clock.monotonicMs() < refusedUntilMs) return null;
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
    this.#endListening();
  }

  async #check(token: string): Promise<Caller | null> {
    const { clock } = this.#options;
    for (;;) {
      const changes = this.#changes;
      const known = await this.#lookUp(token);
      // Somebody revoked a token meanwhile, maybe this one.
      if (changes !== this.#changes) continue;
      if (known === null) this.#refused.set(token, clock.monotonicMs() + refusedMs);
      else this.#known.set(token, known);
      return known?.caller ?? null;
    }
  }

  async #lookUp(token: string): Promise<Known | null> {
    const { db, clock } = this.#options;
    const claims = await this.#verify(token);
    if (claims === null || clock.now() >= claims.expiresAtMs) return null;
    const row = await tokenById(db, claims.jti as TokenId);
    if (row === undefined || row.revoked_at !== null || row.project_id !== claims.projectId) return null;
    const expiresAtMs = Math.min(claims.expiresAtMs, row.expires_at?.getTime() ?? Number.POSITIVE_INFINITY);
    return clock.now() < expiresAtMs ? { caller: callerOf(row), expiresAtMs } : null;
  }

  /** The signed claims; null when the form, the algorithm, the key or the signature is wrong. */
  async #verify(token: string): Promise<Claims | null> {
    const keyId = keyIdOf(token);
    const key = keyId === null ? undefined : await this.#keyById(keyId);
    if (key === undefined) return null;
    try {
      const { payload } = await compactVerify(token, key, { algorithms: [signatureAlgorithm] });
      return readClaims(JSON.parse(new TextDecoder().decode(payload)));
    } catch {
      // Not signed by this key, or not JSON: whoever made it, it is not valid.
      return null;
    }
  }

  async #keyById(keyId: string): Promise<ReturnType<SigningKeys["verifier"]>> {
    const { keys, db, clock } = this.#options;
    const key = keys.verifier(keyId);
    if (key !== undefined || clock.monotonicMs() - this.#lastKeyLookMs < keyLookMs) return key;
    this.#lastKeyLookMs = clock.monotonicMs();
    await keys.load(db);
    return keys.verifier(keyId);
  }

  /** Null: anything may have changed. */
  #forget(tokenId: string | null): void {
    this.#changes += 1;
    this.#refused.clear();
    if (tokenId === null) return this.#known.clear();
    for (const [token, known] of this.#known.entries()) {
      if (known.caller.kind !== "person" && known.caller.tokenId === tokenId) this.#known.delete(token);
    }
  }
}

function keyIdOf(token: string): string | null {
  try {
    const header = decodeProtectedHeader(token);
    return header.alg === signatureAlgorithm && typeof header.kid === "string" ? header.kid : null;
  } catch {
    // Not three parts, or the first is not JSON.
    return null;
  }
}

function readClaims(payload: unknown): Claims | null {
  if (typeof payload !== "object" || payload === null) return null;
  const { jti, projectId, exp } = payload as Record<string, unknown>;
  if (typeof jti !== "string" || !uuidForm.test(jti)) return null;
  if (projectId !== undefined && typeof projectId !== "string") return null;
  if (exp !== undefined && typeof exp !== "number") return null;
  const expiresAtMs = exp === undefined ? Number.POSITIVE_INFINITY : exp * 1000;
  return { jti, projectId: projectId ?? null, expiresAtMs };
}

function callerOf(row: TokenRow): TokenCaller {
  return {
    kind: row.kind,
    tokenId: row.id,
    projectId: row.project_id,
    role: row.role,
    permissions: null,
    name: row.name,
  };
}
