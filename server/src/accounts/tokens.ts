// Issues tokens: signed JWTs that are never stored. The row of a token makes it revocable, and
// holds everything that is needed to sign it again.
import type { JWTPayload } from "jose";
import type { Permission, Role } from "@slipway/contract/words.ts";
import { Fault } from "#lib/fault.ts";
import { newTokenId, type ProjectId, type TokenId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import { record, type By } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import type { TokenKind } from "./caller.ts";
import type { SigningKey } from "./keys.ts";
import { signClaims } from "./sign.ts";
import { insertToken, type TokenRow } from "./token-store.ts";

/** The requested token, by its kind. */
export type TokenWish =
  | {
      readonly kind: "service_account";
      readonly projectId: ProjectId;
      /** Null: the permissions were chosen individually. */
      readonly role: Role | null;
      /** They count only without a role; absent: none. */
      readonly permissions?: readonly Permission[];
      /** Null: the token does not expire. */
      readonly expiresAt: Date | null;
    }
  | {
      readonly kind: "inference";
      readonly projectId: ProjectId;
      /** Absent: the token expires after `inferenceYears`. */
      readonly expiresAt?: Date;
      /** Whether the token can be shown again. */
      readonly isReadable?: boolean;
    }
  | { readonly kind: "operator"; readonly expiresAt: Date | null };

export type IssuedToken = {
  readonly id: TokenId;
  readonly token: Secret;
  readonly expiresAt: Date | null;
};

/** The columns that go into the token itself. */
type SignedColumns = Pick<
  TokenRow,
  "id" | "account_id" | "kind" | "project_id" | "created_at" | "expires_at"
>;

/** A new row, with every column that matters for its token. */
type NewToken = SignedColumns & Pick<TokenRow, "name" | "role" | "permissions" | "is_readable">;

const nameLengthMax = 100;
/** Inference tokens are put into programs that nobody touches for years. */
const inferenceYears = 10;
/** A year of 365.25 days. */
const secondsPerYear = 31_557_600;

/**
 * Writes the row, signs the token and records this in the audit log. The token is valid once `tx`
 * commits. Throws `Fault("invalid")` for a bad name or date.
 */
export async function issueToken(
  tx: Db,
  request: { wish: TokenWish; name: string; key: SigningKey; nowMs: number; by: By },
): Promise<IssuedToken> {
  const { wish, key, nowMs, by } = request;
  const name = checkedName(request.name);
  const expiresAt = checkedEnd(expiryOf(wish, nowMs), nowMs);
  const id = newTokenId();
  const projectId = wish.kind === "operator" ? null : wish.projectId;
  const role = wish.kind === "service_account" ? wish.role : null;
  const permissions =
    wish.kind === "service_account" && role === null ? [...(wish.permissions ?? [])] : null;
  const token = await addToken(tx, key, {
    id,
    account_id: id,
    kind: wish.kind,
    project_id: projectId,
    name,
    role,
    permissions,
    is_readable: wish.kind === "inference" && wish.isReadable === true,
    created_at: new Date(nowMs),
    expires_at: expiresAt,
  });
  await record(tx, {
    projectId,
    action: "token.create",
    by,
    resource: { type: wish.kind, id, name },
    changes: {
      name: { new: name },
      role: { new: role },
      expiresAt: { new: expiresAt },
      ...(permissions === null ? {} : { permissions: { new: permissions } }),
    },
  });
  return { id, token, expiresAt };
}

/** Inserts the row and signs its token. */
export async function addToken(tx: Db, key: SigningKey, row: NewToken): Promise<Secret> {
  await insertToken(tx, { ...row, signing_key_id: key.id });
  return await signToken(row, key);
}

/** The token of a row. Signing again with the same key gives the same token. */
export async function signToken(row: SignedColumns, key: SigningKey): Promise<Secret> {
  // The order of the claims is signed too, so it must not change.
  const claims = { ...claimsOf(row), jti: row.id, iat: secondsOf(row.created_at) };
  // The claim is in whole seconds, rounded up so that a token is not refused early. The row has
  // the exact time.
  const signed =
    row.expires_at === null
      ? claims
      : { ...claims, exp: Math.ceil(row.expires_at.getTime() / 1000) };
  return new Secret(await signClaims(signed, key));
}

/** Returns the trimmed name. Throws `Fault("invalid")` when it is empty or too long. */
export function checkedName(text: string): string {
  const name = text.trim();
  if (name !== "" && name.length <= nameLengthMax) return name;
  throw new Fault(
    "invalid",
    `name is ${name.length} characters long, but must have 1 to ${nameLengthMax}.`,
  );
}

/** Returns the end. Throws `Fault("invalid")` when it is not in the future. */
export function checkedEnd(expiresAt: Date | null, nowMs: number): Date | null {
  if (expiresAt === null || expiresAt.getTime() > nowMs) return expiresAt;
  throw new Fault(
    "invalid",
    `expires_at is ${expiresAt.toISOString()}, but must be in the future.`,
  );
}

/**
 * The claims that name the token's owner. Clients read `projectId` from the payload, without
 * checking the signature.
 */
function claimsOf({ kind, account_id: account, project_id: projectId }: SignedColumns): JWTPayload {
  if (kind === "service_account") return { principal: `serviceaccount/sa-${account}`, projectId };
  if (kind === "operator") return { principal: `operator/op-${account}` };
  return { projectId };
}

function expiryOf(wish: TokenWish, nowMs: number): Date | null {
  if (wish.kind !== "inference") return wish.expiresAt;
  // Whole seconds, since the token's claim has no smaller unit.
  const nowSeconds = Math.floor(nowMs / 1000);
  const endSeconds = nowSeconds + inferenceYears * secondsPerYear;
  return wish.expiresAt ?? new Date(endSeconds * 1000);
}

/** Whole seconds since 1970, as in JWTs. */
function secondsOf(at: Date): number {
  return Math.floor(at.getTime() / 1000);
}

/** The kind's name for people. */
export const kindNames: Readonly<Record<TokenKind, string>> = {
  service_account: "service account",
  inference: "token for calling apps",
  operator: "operator's token",
};
