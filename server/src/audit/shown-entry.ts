// An audit log entry as readers get it: from the API, in an export and by forwarding. Every field
// is part of the entry's hash, see export-format.ts.
import type { z } from "zod";
import type { auditEntry } from "@slipway/contract/audit-routes.ts";
import type { ActorType } from "./record.ts";
import type { AuditRow } from "./audit-store.ts";
import type { JsonObject } from "./chain/canonical.ts";
import { timeOfMicros } from "./instant.ts";

/** An entry for readers. Each field is always present, with null for no value. */
export type ShownEntry = Readonly<
  Omit<z.infer<typeof auditEntry>, "changes"> & { changes: JsonObject | null }
>;

/** A row as readers see it. */
export function showEntry(row: AuditRow): ShownEntry {
  // Where the path of a failed request names no resource, a person's request is recorded with the
  // person, and any other with the platform and an empty id, which readers see as null.
  const { resource_type: type, resource_name: name } = row;
  const id = row.resource_id === "" ? null : row.resource_id;
  return {
    id: String(row.id),
    timestamp: timeOfMicros(row.at_micros),
    action: row.action,
    actor: { type: row.actor_type as ActorType, id: row.actor_id, name: row.actor_name },
    outcome: row.outcome,
    resource: type === null ? null : { type, id, name },
    requestId: row.request_id,
    address: row.address,
    userAgent: row.user_agent,
    changes: row.changes as JsonObject | null,
    reason: row.reason,
  };
}
