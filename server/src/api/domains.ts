// Route handlers for the domains of apps, which are further host names on which an app answers.
import type { z } from "zod";
import type { domain } from "@slipway/contract/domain-routes.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { DomainView } from "#domains/domains.ts";
import { bodyOf, hostNameOf, refOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for domains. */
export function domainHandlers({ domains, urls }: HandlerParts) {
  const show = (view: DomainView): Sent<z.infer<typeof domain>> => ({
    ...view,
    host: new URL(urls().baseUrl).hostname,
  });
  return {
    async listDomains(call) {
      return (await domains.list(refOf(call))).map(show);
    },
    async addDomain(call) {
      return show(await domains.add(refOf(call), String(bodyOf(call)["name"]), call.by));
    },
    async checkDomain(call) {
      return show(await domains.check(domainOf(call), call.by));
    },
    async removeDomain(call) {
      const ref = domainOf(call);
      await domains.remove(ref, call.by);
      return { message: `The domain ${ref.name} was removed; the app no longer answers on it.` };
    },
  } satisfies Handlers;
}

function domainOf(call: ApiCall) {
  const refusal = "The app has no such domain; slipway domains list shows all.";
  return { ...refOf(call), name: hostNameOf(call, "domain", refusal) };
}
