// Route handlers for the domains of apps, which are further host names on which an app answers.
import type { z } from "zod";
import type { domain } from "@slipway/contract/domain-routes.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { ListedCertificate } from "#acme/certificate-use-cases.ts";
import type { DomainView } from "#domains/domains.ts";
import { bodyOf, hostNameOf, refOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

type ShownDomain = Sent<z.infer<typeof domain>>;

/** Certificates by the names that they are for. */
type ByName = ReadonlyMap<string, ListedCertificate>;

/** Route handlers for domains. */
export function domainHandlers({ domains, certificates, urls }: HandlerParts) {
  /** Only for proven names: who merely claims one learns nothing of the app that has it. */
  const certificatesOf = (views: readonly DomainView[]): Promise<ByName> => {
    const proven = views.filter(({ state }) => state === "Validated");
    return certificates.ofNames(proven.map(({ name }) => name));
  };
  const show = (view: DomainView, byName: ByName): ShownDomain => ({
    ...view,
    host: new URL(urls().baseUrl).hostname,
    certificate: showCertificate(byName.get(view.name)),
  });
  return {
    async listDomains(call) {
      const views = await domains.list(refOf(call));
      const byName = await certificatesOf(views);
      return views.map((view) => show(view, byName));
    },
    async addDomain(call) {
      const view = await domains.add(refOf(call), String(bodyOf(call)["name"]), call.by);
      return show(view, await certificatesOf([view]));
    },
    async checkDomain(call) {
      const view = await domains.check(domainOf(call), call.by);
      return show(view, await certificatesOf([view]));
    },
    async removeDomain(call) {
      const ref = domainOf(call);
      await domains.remove(ref, call.by);
      return { message: `The domain ${ref.name} was removed; the app no longer answers on it.` };
    },
  } satisfies Handlers;
}

function showCertificate(one: ListedCertificate | undefined): ShownDomain["certificate"] {
  if (one === undefined) return null;
  return {
    state: one.state,
    endsAt: one.endsAt?.toISOString() ?? null,
    nextTryAt: one.nextTryAt.toISOString(),
    failingSince: one.failingSince?.toISOString() ?? null,
    lastError: one.lastError,
  };
}

function domainOf(call: ApiCall) {
  const refusal = "The app has no such domain; slipway domains list shows all.";
  return { ...refOf(call), name: hostNameOf(call, "domain", refusal) };
}
