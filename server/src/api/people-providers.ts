// Sign-in with a provider: sends the browser to the provider, and handles its return.
import type { z } from "zod";
import type { signInMethods } from "@slipway/contract/people-answers.ts";
import { Fault } from "#lib/fault.ts";
import type { ProviderId } from "#people/provider-auth.ts";
import type { ProviderChange, VisitBegin, VisitEnd } from "#people/provider-sign-in.ts";
import { pathPart, bodyOf, type ApiCall, type Handlers } from "./call.ts";
import { personCallerOf, setCookies, trierOf } from "./people-auth.ts";
import { secretOf } from "./people-passwords.ts";
import { requireOwnPage } from "./session-cookie.ts";
import type { HandlerParts } from "./parts.ts";

/** The maximum length of a parameter that a provider returns. Real answers are shorter. */
const queryLengthMax = 4_000;

/** Route handlers for providers. */
export function providerHandlers(api: HandlerParts) {
  const { people, urls } = api;
  return {
    async listProviders() {
      return people.providers.offers();
    },
    async signInWithProvider(call) {
      requireOwnPage(call.request, urls().baseUrl);
      const body = bodyOf(call);
      const returnTo = body["returnTo"] ?? null;
      const id = body["provider"] as ProviderId;
      const visit = await people.providers.begin(id, {
        returnTo: returnTo === null ? null : String(returnTo),
        ...trierOf(call, api),
      });
      return sendVisit(call, visit);
    },
    async listSignInMethods(call) {
      const accounts = await people.providers.accountsOf(personCallerOf(call).personId);
      return {
        // A password is stored as an account of the provider `credential`.
        hasPassword: accounts.some(({ provider_id }) => provider_id === "credential"),
        providers: people.providers.offers().map((offer) => {
          const account = accounts.find(({ provider_id }) => provider_id === offer.id);
          return {
            ...offer,
            connectedAt: account?.created_at.toISOString() ?? null,
            email: account?.email ?? null,
          };
        }),
      } satisfies z.infer<typeof signInMethods>;
    },
    async connectProvider(call) {
      requireOwnPage(call.request, urls().baseUrl);
      return sendVisit(call, await people.providers.connect(personCallerOf(call), changeOf(call)));
    },
    async disconnectProvider(call) {
      await people.providers.disconnect(personCallerOf(call), changeOf(call));
      return { message: "The account is disconnected." };
    },
    async providerCallback(call) {
      const id = pathPart(call.request, "provider");
      if (id !== "oidc" && id !== "github")
        throw new Fault("not_found", "There is no such provider.");
      const cookie = visitCookie(call);
      const end = await people.providers.end(id, {
        query: queryOf(call),
        cookie,
        ...trierOf(call, api),
      });
      for (const line of end.cookies) void call.reply.header("set-cookie", line);
      if (end.done.kind === "signed_in") setCookies(call, end.done, api);
      await call.reply.redirect(locationOf(end), 302);
      return undefined;
    },
  } satisfies Handlers;
}

/**
 * Answers with the URL of the visit, whose cookies later prove that this browser began the visit.
 */
function sendVisit({ reply }: ApiCall, { url, cookies }: VisitBegin): { url: string } {
  for (const line of cookies) void reply.header("set-cookie", line);
  return { url };
}

function changeOf(call: ApiCall): ProviderChange {
  const { provider, password } = bodyOf(call);
  return { provider: provider as ProviderId, password: secretOf(password), by: call.by };
}

/**
 * The page to which the browser returns. The result is in the fragment of the URL, which is neither
 * sent to servers nor logged.
 */
function locationOf({ done, returnTo }: VisitEnd): string {
  if (done.kind === "signed_in" || done.kind === "connected") return returnTo;
  if (done.kind === "refused") return `${returnTo}#sign-in-problem=${done.why}`;
  // The remaining kind is a challenge: the person has a second factor.
  return `${returnTo}#challenge=${encodeURIComponent(done.challenge.reveal())}`;
}

/**
 * The cookie of the visit, as `name=value`; null: none was sent. With HTTPS its name has a prefix.
 */
function visitCookie({ request }: ApiCall): string | null {
  const parts = (request.headers.cookie ?? "").split(";").map((part) => part.trim());
  return parts.find((part) => /^(?:__Secure-)?slipway\.state=/.test(part)) ?? null;
}

/** The parameters that the sign-in needs. Ignores repeated ones, and others that providers add. */
function queryOf({ request }: ApiCall): Record<string, string> {
  const entries = Object.entries(request.query as Record<string, unknown>);
  // A repeated parameter is a list.
  const texts = entries.filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const known = texts.filter(([name]) => ["code", "state", "error", "iss"].includes(name));
  return Object.fromEntries(known.map(([name, value]) => [name, value.slice(0, queryLengthMax)]));
}
