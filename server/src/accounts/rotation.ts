// Decides what happens to an account's tokens when another one is issued: pure. At most two are
// valid at a time, so that nobody loses track of which one is in use where.
import { Fault } from "#lib/fault.ts";
import type { TokenId } from "#lib/ids.ts";
import { isActive } from "./account-view.ts";
import type { TokenRow } from "./token-store.ts";

type Token = Pick<TokenRow, "id" | "created_at" | "expires_at" | "revoked_at">;

export type RotationPlan = {
  /** For the new token; null: never. */
  readonly expiresAt: Date | null;
  readonly overlapEndsAtMs: number;
  /** These end now. */
  readonly revoked: readonly TokenId[];
  /** These end with the overlap, unless they end earlier. */
  readonly shortened: readonly TokenId[];
};

/**
 * `tokens`: those not revoked. `wantedEnd` null: never; undefined: the newest token's lifetime,
 * starting now.
 */
export function planRotation(rotation: {
  readonly tokens: readonly Token[];
  readonly newest: Token;
  readonly wantedEnd: Date | null | undefined;
  readonly overlapMs: number;
  readonly nowMs: number;
}): RotationPlan | Fault {
  const { tokens, newest, wantedEnd, overlapMs, nowMs } = rotation;
  const active = tokens.filter((token) => isActive(token, nowMs));
  const ids = active.map((token) => token.id);
  const [first] = active.filter((token) => token.id !== newest.id);
  if (overlapMs > 0 && first !== undefined) {
    const until = first.expires_at?.toISOString() ?? "it is revoked";
    const message = `The previous token is still valid until ${until}; wait until then, or revoke both immediately with overlap_seconds 0.`;
    return new Fault("conflict", message);
  }
  return {
    expiresAt: wantedEnd === undefined ? sameSpan(newest, nowMs) : wantedEnd,
    overlapEndsAtMs: nowMs + overlapMs,
    revoked: overlapMs === 0 ? ids : [],
    shortened: overlapMs === 0 ? [] : ids,
  };
}

function sameSpan(
  { created_at: createdAt, expires_at: expiresAt }: Token,
  nowMs: number,
): Date | null {
  return expiresAt === null ? null : new Date(nowMs + expiresAt.getTime() - createdAt.getTime());
}
