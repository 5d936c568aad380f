// The only way into the audit log. Called within the transaction of the change it describes, so that both are committed or
// neither; a refused or failed action is recorded on its own.
import type { AuditAction } from "@slipway/contract/words.ts";
import { toJson } from "#store/json.ts";
import type { Db } from "#store/database.ts";
import { shownAppId, type ProjectId } from "#lib/ids.ts";
import type { By } from "./actor.ts";
import { insertEntry } from "./audit-store.ts";
import { cutText, maskChanges, type Changes } from "./mask.ts";

/** One action. Secrets in `changes` are masked here, but `reason` is kept as it is and must not contain any. */
export type AuditEntry = {
  /** Null if it belongs to no project. */
  readonly projectId: ProjectId | null;
  readonly action: AuditAction;
  readonly outcome?: "success" | "failure";
  readonly by: By;
  readonly resource?: { readonly type: string; readonly id?: string; readonly name?: string };
  readonly changes?: Changes;
  /** For failures: a sentence. */
  readonly reason?: string;
};

const nameLengthMax = 300;
const userAgentLengthMax = 500;

/** Writes one row. `tx` is the transaction of the change, or the database itself for a refused action. */
export async function record(tx: Db, entry: AuditEntry): Promise<void> {
  const { actor, request } = entry.by;
  const name = (text: string | null | undefined): string | null => cutOrNull(text, nameLengthMax);
  await insertEntry(tx, {
    project_id: entry.projectId,
    action: entry.action,
    outcome: entry.outcome ?? "success",
    actor_type: actor.type,
    actor_id: name(actor.id),
    actor_name: name(actor.name),
    resource_type: name(entry.resource?.type),
    resource_id: name(shown(entry.resource?.id)),
    resource_name: name(shown(entry.resource?.name)),
    request_id: name(request?.id),
    address: name(request?.address),
    user_agent: cutOrNull(request?.userAgent, userAgentLengthMax),
    changes: entry.changes === undefined ? null : toJson(maskChanges(entry.changes)),
    reason: entry.reason === undefined ? null : cutText(entry.reason),
  });
}

function shown(text: string | undefined): string | undefined {
  return text === undefined ? undefined : shownAppId(text);
}

function cutOrNull(text: string | null | undefined, max: number): string | null {
  return text === null || text === undefined ? null : cutText(text, max);
}
