// Who is calling, as a checked token says it.
import type { ProjectId, TokenId } from "#lib/ids.ts";
import type { Actor } from "#audit/actor.ts";
import type { Role } from "./permissions.ts";

export type TokenKind = "service_account" | "inference" | "operator";

/** A caller with a valid token. Operators belong to no project; only service accounts have a role. */
export type Caller = {
  readonly kind: TokenKind;
  readonly tokenId: TokenId;
  readonly projectId: ProjectId | null;
  readonly role: Role | null;
  readonly name: string;
};

/** The caller as the audit log names it. */
export function actorOf(caller: Caller): Actor {
  const type = caller.kind === "inference" ? "inference_token" : caller.kind;
  return { type, id: caller.tokenId, name: caller.name };
}
