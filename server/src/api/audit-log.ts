// Route handlers for the audit log of a project.
import type { z } from "zod";
import type { auditLogPage } from "@slipway/contract/audit-routes.ts";
import type { AuditOutcome } from "#audit/audit-store.ts";
import { readInstant, type Instant } from "#audit/instant.ts";
import { showEntry } from "#audit/shown-entry.ts";
import { shown } from "#apps/refusal.ts";
import { Fault } from "#lib/fault.ts";
import { projectOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for the audit log. */
export function auditLogHandlers({ auditLog }: HandlerParts) {
  return {
    async listAuditLog(call) {
      const { query } = call;
      const projectId = projectOf(call);
      // The contract has validated the syntax and choices of the other values.
      const page = await auditLog.page({
        projectId,
        from: timeOf(call, "from"),
        to: timeOf(call, "to"),
        action: query["action"] as string | null,
        actorId: query["actor"] as string | null,
        outcome: query["outcome"] as AuditOutcome | null,
        limit: Number(query["limit"]),
        nextToken: query["nextToken"] as string | null,
      });
      // From this entry, the project's members learn that an operator has read their log.
      if (call.by.actor.type === "operator") await auditLog.recordRead(projectId, call.by);
      const { items, nextToken } = page;
      return {
        logs: items.map(showEntry),
        hasMore: nextToken !== null,
        ...(nextToken === null ? {} : { nextPageToken: nextToken }),
        retentionDays: auditLog.retentionDays(projectId),
      } satisfies z.infer<typeof auditLogPage>;
    },
  } satisfies Handlers;
}

/** Reads a time in the query; null: the query has none. Throws `Fault("invalid")`. */
export function timeOf({ query }: ApiCall, name: "from" | "to"): Instant | null {
  const value = query[name] ?? null;
  if (value === null) return null;
  const instant = readInstant(String(value));
  if (instant !== null) return instant;
  // In a query, a "+" that is not escaped is read as a space.
  const isPlusLost =
    / \d{2}:\d{2}$/.test(String(value)) &&
    readInstant(String(value).replace(/ (?=\S*$)/, "+")) !== null;
  const hint = isPlusLost ? ' In a query "+" is written %2B.' : "";
  const allowed = "a valid time of the form 2026-01-31T12:00:00Z (RFC 3339)";
  throw new Fault("invalid", `${name} is ${shown(value)}, but must be ${allowed}.${hint}`);
}
