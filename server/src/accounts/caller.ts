// The caller of a request, as a verified token names it.
import type { Permission, Role } from "@slipway/contract/words.ts";
import type { ProjectId, TokenId } from "#lib/ids.ts";
import type { Actor } from "#audit/record.ts";

/** Kinds of tokens with a row in `tokens`. */
export type TokenKind = "service_account" | "inference" | "operator";

/** A caller with a valid token of a project, or of the operator, who belongs to no project. */
export type TokenCaller = {
  readonly kind: TokenKind;
  readonly tokenId: TokenId;
  /** The same for all tokens of a rotation: the id of the first. */
  readonly accountId: TokenId;
  readonly projectId: ProjectId | null;
  /** Only for service accounts, and only if their permissions were not chosen individually. */
  readonly role: Role | null;
  /** Chosen individually for a service account, instead of a role. */
  readonly permissions: ReadonlySet<Permission> | null;
  readonly name: string;
};

/** A person with a valid access token. */
export type PersonCaller = {
  readonly kind: "person";
  readonly personId: string;
  readonly sessionId: string;
  readonly email: string;
  readonly name: string;
  /** The projects that they are a member of. */
  readonly roles: ReadonlyMap<ProjectId, Role>;
  /** Always null: a person belongs to any number of projects. */
  readonly projectId: null;
};

/** Anyone with a valid token. */
export type Caller = TokenCaller | PersonCaller;

/** The caller as the audit log names it. */
export function actorOf(caller: Caller): Actor {
  if (caller.kind === "person") return { type: "person", id: caller.personId, name: caller.name };
  const type = caller.kind === "inference" ? "inference_token" : caller.kind;
  return { type, id: caller.accountId, name: caller.name };
}
