// A token account as shown to people: its name and rights, whether it can be used, and its latest
// tokens. Pure.
import { must } from "#lib/assert.ts";
import type { TokenId } from "#lib/ids.ts";
import { rightsOf, type Rights } from "./rights.ts";
import type { AccountRows, TokenRow } from "./token-store.ts";

/**
 * A token is `active` while it is valid, `expired` after its end, and `revoked` when it was ended
 * earlier. An account has the state of its best token: `active` is better than `expired`, and
 * `expired` than `revoked`.
 */
export type TokenState = "active" | "expired" | "revoked";

/** The last use of a token; `address` is null when it is not known. */
export type LastUse = { readonly at: Date; readonly address: string | null };

/** One token as shown. An account is shown with these fields, too. */
export type TokenView = {
  readonly id: TokenId;
  readonly state: TokenState;
  /** For an account, when its first token was issued. */
  readonly createdAt: Date;
  /** Null: never. For an account, the end of its newest token. */
  readonly expiresAt: Date | null;
  /** Null: it was never used. */
  readonly lastUse: LastUse | null;
};

export type AccountView = TokenView & {
  readonly name: string;
  readonly rights: Rights;
  /** Whether the newest token can be shown again. */
  readonly isReadable: boolean;
  /** The tokens of the account, newest first. */
  readonly tokens: readonly TokenView[];
  /** The newest token's row. */
  readonly newest: TokenRow;
};

/** True when the token is valid now. */
export function isActive(row: Pick<TokenRow, "revoked_at" | "expires_at">, nowMs: number): boolean {
  return stateOf(row, nowMs) === "active";
}

/** The account for these rows, which have at least one token. */
export function accountView(
  { accountId, createdAt, tokens }: AccountRows,
  nowMs: number,
): AccountView {
  const newest = must(tokens[0], "an account has a token");
  const views = tokens.map((row) => tokenView(row, nowMs));
  const states = new Set(views.map((view) => view.state));
  // A token that was never used adds nothing.
  const lastUses = views.flatMap((view) => view.lastUse ?? []);
  return {
    id: accountId,
    name: newest.name,
    rights: rightsOf(newest),
    state: bestOf(states),
    createdAt,
    expiresAt: newest.expires_at,
    lastUse: lastUses.toSorted((one, other) => other.at.getTime() - one.at.getTime())[0] ?? null,
    isReadable: newest.is_readable,
    tokens: views,
    newest,
  };
}

/** The best of the states of an account's tokens. */
function bestOf(states: ReadonlySet<TokenState>): TokenState {
  if (states.has("active")) return "active";
  return states.has("expired") ? "expired" : "revoked";
}

function tokenView(row: TokenRow, nowMs: number): TokenView {
  const { last_used_at: at, last_used_address: address } = row;
  return {
    id: row.id,
    state: stateOf(row, nowMs),
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    lastUse: at === null ? null : { at, address },
  };
}

function stateOf(row: Pick<TokenRow, "revoked_at" | "expires_at">, nowMs: number): TokenState {
  if (row.revoked_at !== null) return "revoked";
  return row.expires_at !== null && row.expires_at.getTime() <= nowMs ? "expired" : "active";
}
