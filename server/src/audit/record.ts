// The only way into the audit log. An entry is recorded in the transaction of the change that it
// describes, so that both are committed or neither; a refused or failed action is recorded on its
// own.
import type { AuditAction } from "@slipway/contract/words.ts";
import { shownAppId, type ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { insertEntry } from "./audit-store.ts";
import { cutText, maskChanges, type Changes } from "./mask.ts";

export type ActorType =
  | "person"
  | "service_account"
  | "inference_token"
  | "operator"
  | "platform"
  | "anonymous";

/**
 * The party that acts. `id` is the id of a person or a token account; null for the platform itself
 * and for callers without a valid token.
 */
export type Actor = {
  readonly type: ActorType;
  readonly id: string | null;
  readonly name: string | null;
};

/** The known facts about the request that caused an action. */
type RequestFacts = {
  /** Null when many requests caused the action and the exact one is unknown. */
  readonly id: string | null;
  readonly address: string | null;
  readonly userAgent: string | null;
};

/** The actor and the request: a parameter of every use case that records an action. */
export type By = {
  readonly actor: Actor;
  /** Absent: no request caused the action. */
  readonly request?: RequestFacts;
};

/** The platform acting on its own: starting, building, scaling. */
export const platformActor: Actor = { type: "platform", id: null, name: "platform" };

/** A caller without a valid token. */
export const anonymousActor: Actor = { type: "anonymous", id: null, name: null };

/**
 * One action. Secrets in `changes` are masked here, but `reason` is kept as it is and must not
 * contain any.
 */
export type AuditEntry = {
  /** Null if it belongs to no project. */
  readonly projectId: ProjectId | null;
  readonly action: AuditAction;
  readonly outcome?: "success" | "failure";
  readonly by: By;
  readonly resource?: { readonly type: string; readonly id?: string; readonly name?: string };
  readonly changes?: Changes;
  /** Why the action failed, as a sentence; only failures have it. */
  readonly reason?: string;
};

/** The bounds of texts that come from outside, such as headers. */
const nameLengthMax = 300;
const userAgentLengthMax = 500;

/**
 * Writes one row. `tx` is the transaction of the change, or the database itself for a refused
 * action.
 */
export async function record(tx: Db, entry: AuditEntry): Promise<void> {
  const { actor, request } = entry.by;
  const cutName = (text: string | null | undefined) => cutOrNull(text, nameLengthMax);
  await insertEntry(tx, {
    project_id: entry.projectId,
    action: entry.action,
    outcome: entry.outcome ?? "success",
    actor_type: actor.type,
    actor_id: cutName(actor.id),
    actor_name: cutName(actor.name),
    resource_type: cutName(entry.resource?.type),
    resource_id: cutName(shownText(entry.resource?.id)),
    resource_name: cutName(shownText(entry.resource?.name)),
    request_id: cutName(request?.id),
    address: cutName(request?.address),
    user_agent: cutOrNull(request?.userAgent, userAgentLengthMax),
    changes: entry.changes === undefined ? null : toJson(maskChanges(entry.changes)),
    reason: entry.reason === undefined ? null : cutText(entry.reason),
  });
}

/** Shows app ids in the form that users know. */
function shownText(text: string | undefined): string | undefined {
  return text === undefined ? undefined : shownAppId(text);
}

function cutOrNull(text: string | null | undefined, max: number): string | null {
  return text === null || text === undefined ? null : cutText(text, max);
}
