// Git credentials of projects, per host.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { CredentialView } from "#apps/credentials.ts";
import { Fault } from "#lib/fault.ts";
import { Secret } from "#lib/secret.ts";
import { bodyOf, partOf, projectOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for git credentials; no answer contains a secret. */
export function credentialHandlers({ credentials }: HandlerParts) {
  return {
    async listCredentials(call) {
      return (await credentials.list(projectOf(call), call.by)).map(show);
    },
    async getCredential(call) {
      return show(await credentials.get(projectOf(call), hostOf(call), call.by));
    },
    async setCredential(call) {
      const host = hostOf(call);
      const body = bodyOf(call);
      const credential = {
        kind: body["kind"] === "ssh_key" ? ("ssh_key" as const) : ("token" as const),
        username: body["username"] === null ? null : String(body["username"]),
        secret: new Secret(String(body["secret"])),
      };
      await credentials.set({ projectId: projectOf(call), host, credential, by: call.by });
      return { message: `The credential for ${host} is set; new builds use it.` };
    },
    async deleteCredential(call) {
      const host = hostOf(call);
      await credentials.remove(projectOf(call), host, call.by);
      return { message: `The credential for ${host} was removed.` };
    },
  } satisfies Handlers;
}

/** A host name, or an IPv6 address in brackets, with or without a port. */
const hostForm = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/;

/** The host in the path, in lower case, with its port if any. Throws `Fault("invalid")`. */
function hostOf(call: ApiCall): string {
  const host = partOf(call, "host").toLowerCase();
  if (hostForm.test(host)) return host;
  throw new Fault(
    "invalid",
    "host must be a host name such as github.com, with a port if it has one, and without a scheme or a path.",
  );
}

const show = (credential: CredentialView): Sent<z.infer<typeof answers.credential>> => credential;
