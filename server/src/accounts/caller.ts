// Who is calling, as a checked token says it.
import type { Permission, Role } from "@slipway/contract/words.ts";
import type { ProjectId, TokenId } from "#lib/ids.ts";
import type { Actor } from "#audit/actor.ts";

/** Kinds of tokens that have a row in `tokens`. */
export type TokenKind = "service_account" | "inference" | "operator";

/** A caller with a valid token of a project, or the operator's, who belongs to none. */
export type TokenCaller = {
  readonly kind: TokenKind;
  readonly tokenId: TokenId;
  /** The same for all tokens that follow each other by rotation: the id of the first. */
  readonly accountId: TokenId;
  readonly projectId: ProjectId | null;
  /** Only service accounts have one, unless their permissions were chosen one by one. */
  readonly role: Role | null;
  /** Chosen for a service account, instead of a role. */
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
  /** What they are a member of. */
  readonly roles: ReadonlyMap<ProjectId, Role>;
  /** None: a person belongs to any number of projects. */
  readonly projectId: null;
};

/** Whoever has a valid token. */
export type Caller = TokenCaller | PersonCaller;

/** The caller as the audit log names it. */
export function actorOf(caller: Caller): Actor {
  if (caller.kind === "person") return { type: "person", id: caller.personId, name: caller.name };
  const type = caller.kind === "inference" ? "inference_token" : caller.kind;
  return { type, id: caller.accountId, name: caller.name };
}
