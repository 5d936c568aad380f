// Route handlers by which operators see the certificates that the platform gets by itself, and have
// them renewed or revoked.
import type { z } from "zod";
import type { operatorCertificate } from "@slipway/contract/certificate-routes.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { RevocationReason } from "#acme/authority.ts";
import type { ListedCertificate } from "#acme/certificate-use-cases.ts";
import { bodyOf, hostNameOf, pageWanted, showPage, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for certificates. */
export function certificateHandlers({ certificates: useCases, certificateFiles }: HandlerParts) {
  return {
    async listCertificates(call) {
      const { pageSize, nextToken } = pageWanted(call);
      return showPage(await useCases.list({ size: pageSize, after: nextToken }), showCertificate);
    },
    listCertificateFiles() {
      return Promise.resolve(
        certificateFiles().map(({ file, names, beginsAtMs, endsAtMs }) => ({
          file,
          names,
          begins_at: new Date(beginsAtMs),
          ends_at: new Date(endsAtMs),
        })),
      );
    },
    async renewCertificate(call) {
      return showCertificate(await useCases.renew(nameOf(call), call.by));
    },
    async revokeCertificate(call) {
      // The contract has checked that the text is a known reason.
      const reason = String(bodyOf(call)["reason"]) as RevocationReason;
      return showCertificate(await useCases.revoke(nameOf(call), reason, call.by));
    },
  } satisfies Handlers;
}

function nameOf(call: ApiCall): string {
  return hostNameOf(call, "certificate", "There is no such certificate: slipway certificates");
}

function showCertificate(listed: ListedCertificate): Sent<z.infer<typeof operatorCertificate>> {
  return {
    name: listed.name,
    state: listed.state,
    begins_at: listed.beginsAt,
    ends_at: listed.endsAt,
    next_try_at: listed.nextTryAt,
    failures: listed.failures,
    failing_since: listed.failingSince,
    last_error: listed.lastError,
  };
}
