// Issuing and revoking tokens: signed JWTs that are never stored. The row makes a token revocable.
import { randomUUID } from "node:crypto";
import { SignJWT, type JWTPayload } from "jose";
import { Fault } from "#lib/fault.ts";
import { newTokenId, type ProjectId, type TokenId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import type { By } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { insertToken, markRevoked } from "./account-store.ts";
import type { TokenKind } from "./caller.ts";
import { signatureAlgorithm, type SigningKey } from "./keys.ts";
import type { Role } from "./permissions.ts";

/** What a token is to be. */
export type TokenWish =
  | {
      readonly kind: "service_account";
      readonly projectId: ProjectId;
      readonly role: Role;
      readonly expiresAt: Date | null;
    }
  | { readonly kind: "inference"; readonly projectId: ProjectId; readonly expiresAt?: Date }
  | { readonly kind: "operator"; readonly expiresAt: Date | null };

export type IssuedToken = { readonly id: TokenId; readonly token: Secret; readonly expiresAt: Date | null };

const nameLengthMost = 100;
/** Inference tokens are put into programs that nobody touches for years. */
const inferenceYears = 10;
const secondsPerYear = 31_557_600;

/** Writes the row, signs, records. The token is valid when `tx` is committed. Throws `Fault` for a bad name or date. */
export async function issueToken(
  tx: Db,
  wanted: { wish: TokenWish; name: string; key: SigningKey; nowMs: number; by: By },
): Promise<IssuedToken> {
  const { wish, key, by } = wanted;
  const name = checkedName(wanted.name);
  const issuedAt = Math.floor(wanted.nowMs / 1000);
  const expiresAt = expiryOf(wish, issuedAt);
  if (expiresAt !== null && expiresAt.getTime() <= wanted.nowMs) {
    throw new Fault("invalid", `expiresAt is ${expiresAt.toISOString()}, but must be in the future.`);
  }
  const id = newTokenId();
  const projectId = wish.kind === "operator" ? null : wish.projectId;
  const role = wish.kind === "service_account" ? wish.role : null;
  await insertToken(tx, { id, kind: wish.kind, project_id: projectId, name, role, expires_at: expiresAt });
  await record(tx, {
    projectId,
    action: "token.create",
    by,
    resource: { type: wish.kind, id, name },
    changes: { name: { new: name }, role: { new: role }, expiresAt: { new: expiresAt } },
  });
  const payload = { ...claimsOf(wish.kind, projectId), jti: id, iat: issuedAt };
  const signer = new SignJWT(
    expiresAt === null ? payload : { ...payload, exp: Math.floor(expiresAt.getTime() / 1000) },
  );
  const token = await signer
    .setProtectedHeader({ alg: signatureAlgorithm, typ: "JWT", kid: key.id })
    .sign(key.privateKey);
  return { id, token: new Secret(token), expiresAt };
}

/** Ends a token; every platform refuses it within a second of the commit. Throws `Fault` when there is no such valid token in the project. */
export async function revokeToken(
  tx: Db,
  wanted: { id: TokenId; projectId: ProjectId | null; nowMs: number; by: By },
): Promise<void> {
  const { id, projectId } = wanted;
  const row = await markRevoked(tx, { id, projectId, at: new Date(wanted.nowMs) });
  if (row === undefined) throw new Fault("not_found", `There is no valid token ${id}.`);
  await record(tx, {
    projectId: row.project_id,
    action: "token.revoke",
    by: wanted.by,
    resource: { type: row.kind, id: row.id, name: row.name },
  });
  await notify(tx, "tokens", row.id);
}

function checkedName(given: string): string {
  const name = given.trim();
  if (name !== "" && name.length <= nameLengthMost) return name;
  throw new Fault("invalid", `name is ${name.length} characters long, but must have 1 to ${nameLengthMost}.`);
}

/** Clients read the project from the payload, without a check; see docs of the interface. */
function claimsOf(kind: TokenKind, projectId: ProjectId | null): JWTPayload {
  if (kind === "service_account") return { principal: `serviceaccount/sa-${randomUUID()}`, projectId };
  if (kind === "operator") return { principal: `operator/op-${randomUUID()}` };
  return { projectId };
}

function expiryOf(wish: TokenWish, issuedAt: number): Date | null {
  if (wish.kind !== "inference") return wish.expiresAt;
  return wish.expiresAt ?? new Date((issuedAt + inferenceYears * secondsPerYear) * 1000);
}
