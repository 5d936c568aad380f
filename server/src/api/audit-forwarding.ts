// The forwarding of a project's audit log.
import type { z } from "zod";
import { forwardingFields, type auditForwarding, type newAuditForwarding } from "@slipway/contract/audit-routes.ts";
import type { AuditForwarding, ForwardingUseCases } from "#audit/forwarding/forwarding-use-cases.ts";
import { Secret } from "#lib/secret.ts";
import { projectOf, type Handler } from "./call.ts";
import { readBody } from "./parameters.ts";

type Ids = "getAuditForwarding" | "setAuditForwarding" | "deleteAuditForwarding";

/** Route handlers for the forwarding. */
export function auditForwardingHandlers(useCases: ForwardingUseCases): Record<Ids, Handler> {
  return {
    async getAuditForwarding(call) {
      return show(await useCases.get(projectOf(call)));
    },
    async setAuditForwarding(call) {
      const body = readBody({ fields: forwardingFields, required: ["url"] }, call.body);
      const given = body["secret"];
      const wish = { url: String(body["url"]), ...(typeof given === "string" ? { secret: new Secret(given) } : {}) };
      const { forwarding, secret } = await useCases.set(projectOf(call), wish, call.by);
      return {
        ...show(forwarding),
        ...(secret === null ? {} : { secret: secret.reveal() }),
      } satisfies z.infer<typeof newAuditForwarding>;
    },
    async deleteAuditForwarding(call) {
      await useCases.delete(projectOf(call), call.by);
      return { message: "Audit log forwarding was ended." };
    },
  };
}

function show(forwarding: AuditForwarding): z.infer<typeof auditForwarding> {
  const time = (at: Date | null): string | null => at?.toISOString() ?? null;
  return {
    url: forwarding.url,
    state: forwarding.state,
    createdAt: forwarding.createdAt.toISOString(),
    sentThrough: forwarding.sentThrough,
    waiting: forwarding.waiting,
    lastSentAt: time(forwarding.lastSentAt),
    failingSince: time(forwarding.failingSince),
    nextAttemptAt: time(forwarding.nextAttemptAt),
    reason: forwarding.reason,
  };
}
