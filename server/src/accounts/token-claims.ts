// Verifies a token's form, algorithm, key and signature, and returns its claims. Whether the
// token's row or the person's session still exists and is valid is looked up in token-lookup.ts.
import type { KeyObject } from "node:crypto";
import { compactVerify, decodeProtectedHeader } from "jose";
import type { Clock } from "#lib/clock.ts";
import { uuidForm, type TokenId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { PersonCaller } from "./caller.ts";
import { signatureAlgorithm, type SigningKeys } from "./keys.ts";

/** Claims of a token with a row in `tokens`. `expiresAtMs` is infinite if it never expires. */
export type TokenClaims = {
  readonly kind: "token";
  readonly tokenId: TokenId;
  /** Null: the token is an operator's. */
  readonly projectId: string | null;
  readonly expiresAtMs: number;
};

/** Claims of a person's access token, which belongs to a session. */
export type PersonClaims = Pick<PersonCaller, "kind" | "personId" | "sessionId"> & {
  readonly expiresAtMs: number;
};

export type Claims = TokenClaims | PersonClaims;

/**
 * The minimum time between two loads of the keys for unknown key ids. Another platform may just
 * have created a key with such an id, but invented ids must not overload the database.
 */
const unknownKeyLoadMs = 1_000;

/** Verifies tokens against the platform's signing keys. */
export class SignedClaims {
  readonly #options: { readonly db: Db; readonly keys: SigningKeys; readonly clock: Clock };
  #lastUnknownKeyLoadMs = Number.NEGATIVE_INFINITY;
  /** The number of known or possible key changes. */
  #keyChanges = 0;
  /** The number of these changes that are loaded. */
  #keyChangesLoaded = 0;

  constructor(options: { readonly db: Db; readonly keys: SigningKeys; readonly clock: Clock }) {
    this.#options = options;
  }

  /**
   * Called on a known or possible key change: loads the keys at once, and nothing is verified until
   * they are loaded.
   */
  keysChanged(): void {
    this.#keyChanges += 1;
    // The next verification retries the load, and reports a database that does not answer.
    this.#load().catch(() => undefined);
  }

  /**
   * The signed claims; null when the form, the algorithm, the key or the signature is wrong. Does
   * not check expiry.
   */
  async read(token: string): Promise<Claims | null> {
    if (this.#keyChangesLoaded < this.#keyChanges) await this.#load();
    const keyId = keyIdOf(token);
    const key = keyId === null ? undefined : await this.#keyById(keyId);
    if (key === undefined) return null;
    try {
      const { payload } = await compactVerify(token, key, { algorithms: [signatureAlgorithm] });
      return claimsOf(JSON.parse(new TextDecoder().decode(payload)));
    } catch {
      // Not signed by this key, or not JSON: invalid either way.
      return null;
    }
  }

  async #keyById(keyId: string): Promise<KeyObject | undefined> {
    const { keys, db, clock } = this.#options;
    const key = keys.verifier(keyId);
    if (key !== undefined) return key;
    if (clock.monotonicMs() - this.#lastUnknownKeyLoadMs < unknownKeyLoadMs) return undefined;
    this.#lastUnknownKeyLoadMs = clock.monotonicMs();
    await keys.load(db);
    return keys.verifier(keyId);
  }

  async #load(): Promise<void> {
    const { keys, db } = this.#options;
    const changes = this.#keyChanges;
    await keys.load(db);
    this.#keyChangesLoaded = Math.max(this.#keyChangesLoaded, changes);
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

/** Tokens with a row name it in `jti`; people's tokens name the person and the session instead. */
function claimsOf(payload: unknown): Claims | null {
  if (typeof payload !== "object" || payload === null) return null;
  const claims = payload as Record<string, unknown>;
  return claims["jti"] === undefined ? personClaims(claims) : tokenClaims(claims);
}

function tokenClaims({ jti, projectId, exp }: Record<string, unknown>): TokenClaims | null {
  if (typeof jti !== "string" || !uuidForm.test(jti)) return null;
  if (projectId !== undefined && typeof projectId !== "string") return null;
  if (exp !== undefined && typeof exp !== "number") return null;
  const expiresAtMs = exp === undefined ? Number.POSITIVE_INFINITY : exp * 1000;
  return { kind: "token", tokenId: jti as TokenId, projectId: projectId ?? null, expiresAtMs };
}

/** People's tokens always expire. */
function personClaims({ sub, sid, exp }: Record<string, unknown>): PersonClaims | null {
  if (
    typeof sub !== "string" ||
    !uuidForm.test(sub) ||
    typeof sid !== "string" ||
    typeof exp !== "number"
  )
    return null;
  return { kind: "person", personId: sub, sessionId: sid, expiresAtMs: exp * 1000 };
}
