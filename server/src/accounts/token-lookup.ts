// Looks up whether what a signed token names exists and is valid now. Each kind of claims has its
// own lookup: this file has that of tokens with a row, and TokenCheck gets that of people as an
// option.
import type { Permission } from "@slipway/contract/words.ts";
import type { Db } from "#store/database.ts";
import type { Caller, TokenCaller } from "./caller.ts";
import type { TokenClaims } from "./token-claims.ts";
import { tokenById, type TokenRow } from "./token-store.ts";

/** A caller, and when the token ends, if it is not revoked earlier. */
export type Found = { readonly caller: Caller; readonly expiresAtMs: number };

/**
 * Finds the caller that the claims name; null when the token is not or no longer valid, whatever
 * its signature says. `expiresAtMs` is no later than in the claims.
 */
export type Lookup<C> = (claims: C) => Promise<Found | null>;

/** Looks up the token's row. */
export function tokenLookup(db: Db): Lookup<TokenClaims> {
  return async (claims) => {
    const row = await tokenById(db, claims.tokenId);
    if (row === undefined || row.revoked_at !== null || row.project_id !== claims.projectId)
      return null;
    const expiresAtMs = Math.min(
      claims.expiresAtMs,
      row.expires_at?.getTime() ?? Number.POSITIVE_INFINITY,
    );
    return { caller: callerOf(row), expiresAtMs };
  };
}

function callerOf(row: TokenRow): TokenCaller {
  return {
    kind: row.kind,
    tokenId: row.id,
    accountId: row.account_id,
    projectId: row.project_id,
    role: row.role,
    // The platform itself wrote these permissions; one that only a later version knows grants
    // nothing.
    permissions: row.permissions === null ? null : new Set(row.permissions as Permission[]),
    name: row.name,
  };
}
