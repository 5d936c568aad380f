// Route handlers for the forwarding of a project's audit log to a receiver.
import type { z } from "zod";
import type { newAuditForwarding } from "@slipway/contract/audit-routes.ts";
import type { Sent } from "@slipway/contract/route.ts";
import { Secret } from "#lib/secret.ts";
import { projectOf, bodyOf, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for the forwarding of audit logs. */
export function auditForwardingHandlers({ auditForwarding: useCases }: HandlerParts) {
  return {
    async getAuditForwarding(call) {
      return await useCases.get(projectOf(call));
    },
    async setAuditForwarding(call) {
      const body = bodyOf(call);
      const secretText = body["secret"];
      const wish = {
        url: String(body["url"]),
        ...(typeof secretText === "string" ? { secret: new Secret(secretText) } : {}),
      };
      const { forwarding, secret } = await useCases.set(projectOf(call), wish, call.by);
      return {
        ...forwarding,
        ...(secret === null ? {} : { secret: secret.reveal() }),
      } satisfies Sent<z.infer<typeof newAuditForwarding>>;
    },
    async deleteAuditForwarding(call) {
      await useCases.delete(projectOf(call), call.by);
      return { message: "Audit log forwarding was ended." };
    },
  } satisfies Handlers;
}
