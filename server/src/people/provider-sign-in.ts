// Signing in with a provider: a visit there begins with an address to go to and a cookie, and ends when the browser comes
// back. Whatever comes back becomes a session, a challenge, or one of a few words for why not.
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { DeadlineExceeded, withDeadline } from "#lib/with-deadline.ts";
import { limits } from "./attempt-limits.ts";
import type { Challenge } from "./challenges.ts";
import { deleteSessions, lockPerson, sessionByToken } from "./people-store.ts";
import type { Trier } from "./device-cookies.ts";
import { byAnybody, recordOfPerson } from "./person-record.ts";
import { openProviderAuth, type ProviderAuth, type ProviderId } from "./provider-auth.ts";
import { ProviderGate, type GateRefusal } from "./provider-gate.ts";
import { sessionEnded, type SignedIn } from "./sessions.ts";
import type { SignInParts } from "./sign-in-parts.ts";

/** Why a visit came to nothing. `expired`: too late, twice, or from another browser; `refused`: by the provider; `failed`: it answered nonsense. */
export type ProviderRefusal = GateRefusal | "expired" | "refused" | "failed";

/** How a visit ended. `returnTo`: where the person wanted to go, within the dashboard. */
export type VisitEnd = {
  readonly done: SignedIn | Challenge | { readonly kind: "refused"; readonly why: ProviderRefusal };
  readonly returnTo: string;
  /** Header lines Set-Cookie, which end the visit's cookie. */
  readonly cookies: readonly string[];
};

/** Where a visit begins. */
export type VisitBegin = { readonly url: string; readonly cookies: readonly string[] };

export type ProviderOffer = { readonly id: ProviderId; readonly name: string };

/** For all that a provider is asked in one request of ours. */
const waitMs = 20_000;
/** Only pages of the dashboard, and nothing that a browser could take for another host. */
const returnForm = /^\/dashboard(?:\/[\w.~-]+)*\/?(?:\?[\w.~=&%-]*)?$/;
const returnLengthMax = 500;
const dashboard = "/dashboard";
const failedPath = "/v2/auth/failed";

const gateRefusals: ReadonlySet<string> = new Set<GateRefusal>([
  "address_not_proven",
  "not_invited",
  "two_factor_first",
]);
const expiredCodes: ReadonlySet<string> = new Set(["state_mismatch", "state_not_found", "state_invalid"]);

/** Begins and ends visits. */
export class ProviderSignIn {
  readonly #parts: SignInParts;
  #auth: ProviderAuth | undefined;

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /** What the operator has set up. */
  offers(): ProviderOffer[] {
    const { oidc, github } = this.#parts.settings;
    return [
      ...(oidc === null ? [] : [{ id: "oidc" as const, name: oidc.name }]),
      ...(github === null ? [] : [{ id: "github" as const, name: github.name }]),
    ];
  }

  /** Where to send the browser. Throws `Fault("not_found" | "invalid" | "unavailable" | "rate_limited")`. */
  async begin(id: ProviderId, given: Trier & { readonly returnTo: string | null }): Promise<VisitBegin> {
    this.#require(id);
    await this.#count(given);
    const returnTo = given.returnTo ?? dashboard;
    if (!isReturn(returnTo)) {
      throw new Fault("invalid", "returnTo must be a path of the dashboard, such as /dashboard/device.");
    }
    const auth = await this.#open(id);
    const body = { provider: id, callbackURL: returnTo, errorCallbackURL: failedPath, disableRedirect: true };
    const answer = await this.#ask(
      id,
      auth.api.signInSocial({ body, headers: new Headers(), asResponse: true }).then(async (response) => ({
        cookies: response.headers.getSetCookie(),
        found: response.ok ? ((await response.json()) as { url?: unknown }) : {},
      })),
    );
    const { url } = answer.found;
    if (typeof url !== "string") throw this.#away(id);
    return { url, cookies: answer.cookies };
  }

  /** Takes what the provider sent back. Throws as `begin` does; whatever else is wrong is a refusal. */
  async end(
    id: ProviderId,
    given: Trier & { readonly query: Readonly<Record<string, string>>; readonly cookie: string | null },
  ): Promise<VisitEnd> {
    this.#require(id);
    await this.#count(given);
    const auth = await this.#open(id);
    const headers = new Headers(given.cookie === null ? {} : { cookie: given.cookie });
    const params = { id };
    const response = await this.#ask(
      id,
      auth.api.callbackOAuth({ method: "GET", params, query: given.query, headers, asResponse: true }),
    );
    const location = response.headers.get("location") ?? "";
    const token = this.#parts.tokens.setBy(response.headers);
    const cookies = response.headers.getSetCookie().filter((line) => !/session_token=|session_data=/.test(line));
    if (token === null) return { ...(await this.#refuse(id, location, given.by)), cookies };
    return {
      done: await this.#enter(id, token, given.by),
      returnTo: isReturn(location) ? location : dashboard,
      cookies,
    };
  }

  /** The session that better-auth has made, which nobody has seen yet, makes way for one of ours or for a challenge. */
  async #enter(id: ProviderId, token: string, by: By): Promise<SignedIn | Challenge> {
    const { db } = this.#parts;
    const done = await db.transaction().execute(async (tx) => {
      const made = await sessionByToken(tx, token);
      const person = made === undefined ? undefined : await lockPerson(tx, made.person_id);
      // Sessions of the person may have been ended a moment ago, this one among them.
      const ended = made === undefined ? [] : await deleteSessions(tx, { personId: made.person_id, only: made.id });
      if (person === undefined || ended.length === 0) {
        throw sessionEnded();
      }
      if (person.two_factor_enabled) return this.#parts.challenges.make(tx, person.id);
      return { person, session: await this.#parts.sessions.open(tx, person, { way: id, by }) };
    });
    return "kind" in done ? done : this.#parts.sessions.tokensOf(done);
  }

  async #refuse(id: ProviderId, location: string, by: By): Promise<Pick<VisitEnd, "done" | "returnTo">> {
    const code = URL.parse(location, "http://localhost")?.searchParams.get("error") ?? "";
    const why = refusalOf(code);
    this.#parts.log.warn({ provider: id, code: code.slice(0, 100) }, "a sign-in with a provider was refused");
    const about = { id: null, email: "", name: "" };
    const event = { action: "person.sign_in", outcome: "failure", about, by: byAnybody(by) } as const;
    await recordOfPerson(this.#parts.db, { ...event, reason: `A sign-in with a provider was refused: ${why}.` });
    return { done: { kind: "refused", why }, returnTo: dashboard };
  }

  #require(id: ProviderId): void {
    if (!this.offers().some((offer) => offer.id === id)) {
      throw new Fault("not_found", "Sign-in with this provider is not configured here.");
    }
  }

  async #count(trier: Trier): Promise<void> {
    await this.#parts.limits.take(limits.secretAddress, this.#parts.deviceCookies.keyOf(trier));
  }

  /** The instance; a provider that could not be looked up is looked up again by the next visit. */
  async #open(id: ProviderId): Promise<ProviderAuth> {
    const { baseUrl, db, clock, log, mailer, secret, settings } = this.#parts;
    this.#auth ??= openProviderAuth({
      ...{ database: db, secret, baseUrl: baseUrl() },
      ...{ oidc: settings.oidc, github: settings.github },
      gate: new ProviderGate({ db, clock, log, mailer, settings }),
    });
    const context = await this.#ask(id, this.#auth.$context);
    const provider = context.socialProviders.find((one) => one.id === id);
    if (id !== "oidc" || provider === undefined || isSameIssuer(provider.issuer, settings.oidc?.url)) {
      return this.#auth;
    }
    log.error({ issuer: provider.issuer }, "SLIPWAY_OIDC_ISSUER does not match the issuer that the provider reports");
    throw this.#away(id);
  }

  /** Ends waiting for a provider that does not answer. */
  async #ask<T>(id: ProviderId, asked: Promise<T>): Promise<T> {
    try {
      return await withDeadline(this.#parts.clock, waitMs, asked);
    } catch (error) {
      throw error instanceof DeadlineExceeded ? this.#away(id) : error;
    }
  }

  #away(id: ProviderId): Fault {
    const name = this.offers().find((offer) => offer.id === id)?.name ?? id;
    return new Fault("unavailable", `${name} is not responding correctly at the moment; try again.`);
  }
}

function isReturn(path: string): boolean {
  return path.length <= returnLengthMax && returnForm.test(path) && !path.includes("..");
}

/** A slash at the end makes no difference: settings have none. */
function isSameIssuer(said: string | undefined, set: string | undefined): boolean {
  return said !== undefined && said.replace(/\/+$/, "") === set;
}

function refusalOf(code: string): ProviderRefusal {
  if (gateRefusals.has(code)) return code as GateRefusal;
  if (code === "account_not_linked") return "address_not_proven";
  if (code === "access_denied") return "refused";
  return expiredCodes.has(code) ? "expired" : "failed";
}
