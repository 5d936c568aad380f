// Token accounts in the format of answers, and readers for the fields that the bodies of their
// routes share.
import type { z } from "zod";
import { rotationFields, type serviceAccount } from "@slipway/contract/token-fields.ts";
import type { AccountView, LastUse } from "#accounts/account-view.ts";
import type { TokenKind } from "#accounts/caller.ts";
import type { Requester, Rotation, TokenAccountRef } from "#accounts/token-use-cases.ts";
import type { TokenId } from "#lib/ids.ts";
import { callerOf, idOf, projectOf, readBody, readTime, type ApiCall } from "./call.ts";

/** The fields that the answers of all kinds of accounts have. */
export type ShownAccount = Omit<z.infer<typeof serviceAccount>, "role" | "permissions">;

/** The parts of paths that have the id of an account, by the kind of its tokens. */
const pathParts = {
  inference: "api_key_id",
  service_account: "service_account_id",
  operator: "token_id",
} as const;

/** The account in the path. Throws `Fault("not_found")` for an invalid id. */
export function accountRefOf(call: ApiCall, kind: TokenKind): TokenAccountRef {
  const accountId = idOf(call, pathParts[kind], "There is none with that id.") as TokenId;
  return { kind, projectId: kind === "operator" ? null : projectOf(call), accountId };
}

/** The caller who requests a change, and who can grant no more rights than they have themselves. */
export function requesterOf(call: ApiCall): Requester {
  return { caller: callerOf(call), by: call.by };
}

/**
 * Reads the body of a rotation; no body counts as an empty one. If `expires_at` is null, the new
 * token never expires; if it is omitted, the token is valid for as long as its predecessor was.
 */
export function rotationOf(call: ApiCall): Rotation {
  const sent = call.body ?? {};
  const body = readBody({ fields: rotationFields, required: [] }, sent);
  // `readBody` gives null for an end that is null and for one that is omitted.
  const hasEnd = Object.hasOwn(sent, "expires_at");
  const expiresAt = hasEnd ? endOf(body["expires_at"]) : undefined;
  return { expiresAt, overlapSeconds: Number(body["overlap_seconds"]) };
}

/**
 * Reads the value of a field `expires_at`, which the contract has validated. Null: the field is
 * absent or null.
 */
export function endOf(value: unknown): Date | null {
  return value === null || value === undefined ? null : readTime("expires_at", value);
}

/** The fields that the answers of all kinds share, with times as in RFC 3339. */
export function showAccount(account: AccountView): ShownAccount {
  const { id, name, state, createdAt, expiresAt, lastUse, tokens } = account;
  return {
    id,
    name,
    state,
    created_at: createdAt.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
    ...showUse(lastUse),
    tokens: tokens.map((token) => ({
      id: token.id,
      state: token.state,
      created_at: token.createdAt.toISOString(),
      expires_at: token.expiresAt?.toISOString() ?? null,
      ...showUse(token.lastUse),
    })),
  };
}

function showUse(use: LastUse | null): Pick<ShownAccount, "last_used_at" | "last_used_address"> {
  return { last_used_at: use?.at.toISOString() ?? null, last_used_address: use?.address ?? null };
}
