// An audit log entry as readers get it: from the API, in an export and by forwarding. Every field is part of the entry's hash,
// see export-format.ts.
import type { ActorType } from "./record.ts";
import type { AuditRow, AuditOutcome } from "./audit-store.ts";
import type { JsonObject } from "./chain/canonical.ts";
import { timeOfMicros } from "./instant.ts";

/** Every field is always present; null if there is no value. */
export type ShownEntry = {
  readonly id: string;
  /** UTC, six digits of the second. */
  readonly timestamp: string;
  readonly action: string;
  readonly actor: { readonly type: ActorType; readonly id: string | null; readonly name: string | null };
  readonly outcome: AuditOutcome;
  readonly resource: { readonly type: string; readonly id: string | null; readonly name: string | null } | null;
  readonly requestId: string | null;
  readonly address: string | null;
  readonly userAgent: string | null;
  readonly changes: JsonObject | null;
  readonly reason: string | null;
};

/** A row as readers see it. */
export function showEntry(row: AuditRow): ShownEntry {
  const { resource_type: type, resource_id: id, resource_name: name } = row;
  return {
    id: String(row.id),
    timestamp: timeOfMicros(row.at_micros),
    action: row.action,
    actor: { type: row.actor_type as ActorType, id: row.actor_id, name: row.actor_name },
    outcome: row.outcome,
    resource: type === null ? null : { type, id: id === "" ? null : id, name },
    requestId: row.request_id,
    address: row.address,
    userAgent: row.user_agent,
    changes: row.changes as JsonObject | null,
    reason: row.reason,
  };
}
