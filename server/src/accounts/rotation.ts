// Decides what happens to an account's tokens when another token is issued. At most two tokens are
// valid at a time, so that nobody loses track of which one is in use where. Pure.
import { Fault } from "#lib/fault.ts";
import type { TokenId } from "#lib/ids.ts";
import { isActive } from "./account-view.ts";
import type { TokenRow } from "./token-store.ts";

type Token = Pick<TokenRow, "id" | "created_at" | "expires_at" | "revoked_at">;

export type RotationPlan = {
  /** When the new token expires; null: never. */
  readonly expiresAt: Date | null;
  /** The end of the time in which the new token and its predecessor are both valid. */
  readonly overlapEndsAtMs: number;
  /** Tokens that end now. */
  readonly revoked: readonly TokenId[];
  /** Tokens that end with the overlap, unless they end earlier. */
  readonly shortened: readonly TokenId[];
};

/** Plans a rotation. Returns a fault when an overlap is wanted before an earlier one has ended. */
export function planRotation(rotation: {
  /** The account's tokens that are not revoked. */
  readonly tokens: readonly Token[];
  readonly newest: Token;
  /** When the new token expires. Null: never; undefined: after the lifetime of the newest one. */
  readonly wantedEnd: Date | null | undefined;
  readonly overlapMs: number;
  readonly nowMs: number;
}): RotationPlan | Fault {
  const { tokens, newest, wantedEnd, overlapMs, nowMs } = rotation;
  const active = tokens.filter((token) => isActive(token, nowMs));
  const ids = active.map((token) => token.id);
  // A valid token besides the newest one means that an earlier overlap goes on.
  const previous = active.find((token) => token.id !== newest.id);
  if (overlapMs > 0 && previous !== undefined) {
    const until = previous.expires_at?.toISOString() ?? "it is revoked";
    const message = `The previous token is still valid until ${until}; wait until then, or revoke both immediately with overlap_seconds 0.`;
    return new Fault("conflict", message);
  }
  return {
    expiresAt: wantedEnd === undefined ? endOfSameLifetime(newest, nowMs) : wantedEnd,
    overlapEndsAtMs: nowMs + overlapMs,
    revoked: overlapMs === 0 ? ids : [],
    shortened: overlapMs === 0 ? [] : ids,
  };
}

function endOfSameLifetime(token: Token, nowMs: number): Date | null {
  if (token.expires_at === null) return null;
  const lifetimeMs = token.expires_at.getTime() - token.created_at.getTime();
  return new Date(nowMs + lifetimeMs);
}
