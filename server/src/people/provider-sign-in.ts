// Signing in with a provider: a visit begins with a URL and a cookie for the browser, and ends when
// the browser comes back. It results in a session, a challenge, or a refusal. A signed-in person
// connects an account by such a visit, and can disconnect it again.
import type { PersonCaller } from "#accounts/caller.ts";
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { DeadlineExceeded, withDeadline } from "#lib/with-deadline.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { limits } from "./attempt-limits.ts";
import type { Challenge } from "./challenges.ts";
import {
  accountsOf,
  deleteAccounts,
  deleteSessions,
  lockPerson,
  personById,
  sessionByToken,
} from "./people-store.ts";
import type { AccountRow } from "./people-store.ts";
import type { Trier } from "./device-cookies.ts";
import { byAnybody, byPerson, recordOfPerson } from "./person-record.ts";
import type { ProviderAuth, ProviderId } from "./provider-auth.ts";
import { ProviderGate, type GateRefusal } from "./provider-gate.ts";
import { sessionEnded, type PersonSession, type SignedIn } from "./sessions.ts";
import type { SignInParts } from "./sign-in-parts.ts";
import { requirePassword } from "./two-factor.ts";

/**
 * Why a visit was refused. `expired`: the browser came back too late or a second time, or another
 * browser came; `refused`: the provider refused; `failed`: the provider's answer was not valid;
 * `account_taken`: the account is connected to somebody else.
 */
export type ProviderRefusal = GateRefusal | "account_taken" | "expired" | "refused" | "failed";

/** How a visit ended. */
export type VisitEnd = {
  readonly done:
    | SignedIn
    | Challenge
    | { readonly kind: "connected" }
    | { readonly kind: "refused"; readonly why: ProviderRefusal };
  /** The path of the dashboard to which the person wanted to go. */
  readonly returnTo: string;
  /** The values of the headers `Set-Cookie`, which delete the visit's cookie. */
  readonly cookies: readonly string[];
};

/** The provider's URL for the browser, and the headers `Set-Cookie` with the visit's cookie. */
export type VisitBegin = { readonly url: string; readonly cookies: readonly string[] };

/** The account that a signed-in person connects or disconnects. */
export type ProviderChange = {
  readonly provider: ProviderId;
  /** The person's password as a confirmation; null: none was sent. */
  readonly password: Secret | null;
  readonly by: By;
};

/** A provider to choose on the sign-in page; the name is the operator's. */
export type ProviderOffer = { readonly id: ProviderId; readonly name: string };

/** The maximum time for all requests to a provider within one request to the platform. */
const waitMs = 20_000;
/** Matches only pages of the dashboard, and nothing that a browser could take for another host. */
const returnForm = /^\/dashboard(?:\/[\w.~-]+)*\/?(?:\?[\w.~=&%-]*)?$/;
/** Far longer than any path of the dashboard. */
const returnLengthMax = 500;
const dashboard = "/dashboard";
const accountPage = "/dashboard/account";
/** The path to which better-auth redirects a refused sign-in. Nobody goes there: `end` reads it. */
const failedPath = "/v2/auth/failed";

/** The refusals of our own gate, which better-auth hands on as the code of an error. */
const gateRefusals: ReadonlySet<string> = new Set<GateRefusal>([
  "address_not_proven",
  "not_invited",
  "two_factor_first",
]);
/** better-auth's codes for a browser that comes back without the state of a running visit. */
const expiredCodes: ReadonlySet<string> = new Set([
  "state_mismatch",
  "state_not_found",
  "state_invalid",
]);

/** Begins and ends visits to providers, and connects and disconnects accounts. */
export class ProviderSignIn {
  readonly #parts: SignInParts;
  #auth: ProviderAuth | undefined;

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /** The providers that the operator has set up. */
  offers(): ProviderOffer[] {
    const { oidc, github } = this.#parts.settings;
    const offers: ProviderOffer[] = [];
    if (oidc !== null) offers.push({ id: "oidc", name: oidc.name });
    if (github !== null) offers.push({ id: "github", name: github.name });
    return offers;
  }

  /**
   * Begins a visit that signs a person in. Throws `Fault("not_found" | "invalid" | "unavailable" |
   * "rate_limited")`.
   */
  async begin(
    id: ProviderId,
    /** `returnTo` null: the dashboard's first page. */
    visitor: Trier & { readonly returnTo: string | null },
  ): Promise<VisitBegin> {
    // Throws when the provider is not set up.
    this.nameOf(id);
    await this.#count(visitor);
    const returnTo = visitor.returnTo ?? dashboard;
    if (!isReturn(returnTo)) {
      throw new Fault(
        "invalid",
        "returnTo must be a path of the dashboard, such as /dashboard/device.",
      );
    }
    const auth = await this.#open(id);
    const body = {
      provider: id,
      callbackURL: returnTo,
      errorCallbackURL: failedPath,
      disableRedirect: true,
    };
    return this.#visit(
      id,
      auth.api.signInSocial({ body, headers: new Headers(), asResponse: true }),
    );
  }

  /**
   * The accounts with which a person can sign in now, oldest first. The password is an account
   * whose provider is `credential`.
   */
  async accountsOf(personId: string, db: Db = this.#parts.db): Promise<AccountRow[]> {
    return accountsOf(db, personId, this.#parts.settings);
  }

  /**
   * Begins a visit that connects an account of the provider to the signed-in person. Throws as
   * `begin` does, `Fault("not_usable")` for a wrong password, and `Fault("conflict")` when an
   * account of the provider is already connected.
   */
  async connect(
    caller: PersonCaller,
    { provider: id, password, by }: ProviderChange,
  ): Promise<VisitBegin> {
    const name = this.nameOf(id);
    const { person, session } = await this.#confirm(caller, password);
    if ((await this.accountsOf(person.id)).some(({ provider_id }) => provider_id === id)) {
      throw new Fault(
        "conflict",
        `You have already connected an account with ${name}; disconnect it first.`,
      );
    }
    const auth = await this.#open(id);
    // `#endWithoutSession` finds the person's id in this URL when the visit ends.
    const callbackURL = `${accountPage}?person=${person.id}`;
    const urls = { callbackURL, errorCallbackURL: callbackURL, disableRedirect: true };
    const body = {
      provider: id,
      ...urls,
      additionalData: { by: byPerson(person, by), sessionId: session.id },
    };
    const headers = new Headers({ authorization: `Bearer ${session.token}` });
    return this.#visit(id, auth.api.linkSocialAccount({ body, headers, asResponse: true }));
  }

  /**
   * Disconnects the person's account of the provider. Throws `Fault("not_usable" | "not_found" |
   * "rate_limited")`, and `Fault("conflict")` when it is the person's only way to sign in.
   */
  async disconnect(
    caller: PersonCaller,
    { provider: id, password, by }: ProviderChange,
  ): Promise<void> {
    const name = this.nameOf(id);
    await this.#confirm(caller, password);
    await this.#parts.db.transaction().execute(async (tx) => {
      await lockPerson(tx, caller.personId);
      // If the password was changed since it was compared, that change has ended this session.
      const { person } = await this.#parts.sessions.required(tx, caller);
      const accounts = await this.accountsOf(person.id, tx);
      const account = accounts.find(({ provider_id }) => provider_id === id);
      if (account === undefined)
        throw new Fault("not_found", `You have not connected an account with ${name}.`);
      if (accounts.every(({ provider_id }) => provider_id === id)) {
        const advice =
          "set a password by “Forgot your password?” on the sign-in page, or connect another account, first";
        throw new Fault(
          "conflict",
          `The account with ${name} is your only way to sign in: ${advice}.`,
        );
      }
      await deleteAccounts(tx, person.id, id);
      // An account without an address is named by its id at the provider.
      const changes = { [id]: { old: account.email ?? account.account_id, new: "none" } };
      const entry = {
        action: "person.provider_disconnect",
        about: person,
        by: byPerson(person, by),
        changes,
      } as const;
      await recordOfPerson(tx, entry);
    });
  }

  /** The name that the operator gave the provider. Throws `Fault("not_found")`. */
  nameOf(id: ProviderId): string {
    const offer = this.offers().find((provider) => provider.id === id);
    if (offer === undefined)
      throw new Fault("not_found", "Sign-in with this provider is not configured here.");
    return offer.name;
  }

  /**
   * Ends a visit by the query with which the provider sent the browser back. Throws as `begin`
   * does, and `Fault("unauthorized")` when the person's sessions were ended meanwhile; any other
   * failure is returned as a refusal.
   */
  async end(
    id: ProviderId,
    visit: Trier & {
      readonly query: Readonly<Record<string, string>>;
      /** The header `Cookie`; null: the browser sent none. */
      readonly cookie: string | null;
    },
  ): Promise<VisitEnd> {
    // Throws when the provider is not set up.
    this.nameOf(id);
    await this.#count(visit);
    const auth = await this.#open(id);
    const headers = new Headers(visit.cookie === null ? {} : { cookie: visit.cookie });
    const params = { id };
    const response = await this.#waitFor(
      id,
      auth.api.callbackOAuth({
        method: "GET",
        params,
        query: visit.query,
        headers,
        asResponse: true,
      }),
    );
    const location = response.headers.get("location") ?? "";
    const token = this.#parts.tokens.setBy(response.headers);
    // The cookies of better-auth's session are left out, since the browser gets our session.
    const cookies = response.headers
      .getSetCookie()
      .filter((line) => !/session_token=|session_data=/.test(line));
    if (token === null) {
      const end = await this.#endWithoutSession(id, location, visit.by);
      return { ...end, cookies };
    }
    const done = await this.#enter(id, token, visit.by);
    return { done, returnTo: isReturn(location) ? location : dashboard, cookies };
  }

  /**
   * Replaces the session that better-auth has made, and whose token nobody has seen, by one of ours
   * or by a challenge.
   */
  async #enter(id: ProviderId, token: string, by: By): Promise<SignedIn | Challenge> {
    const { db } = this.#parts;
    const done = await db.transaction().execute(async (tx) => {
      const session = await sessionByToken(tx, token);
      if (session === undefined) throw sessionEnded();
      const person = await lockPerson(tx, session.person_id);
      if (person === undefined) throw sessionEnded();
      // `ended` is empty when all sessions of the person were ended a moment ago, this one too.
      const ended = await deleteSessions(tx, { personId: person.id, only: session.id });
      if (ended.length === 0) throw sessionEnded();
      if (person.two_factor_enabled) return this.#parts.challenges.make(tx, person.id);
      return { person, session: await this.#parts.sessions.open(tx, person, { way: id, by }) };
    });
    // A challenge has a kind. A session gets its kind, with its tokens, only here.
    return "kind" in done ? done : this.#parts.sessions.tokensOf(done);
  }

  /**
   * Compares the password, with a limit on wrong ones, and returns the caller's session. Throws
   * `Fault("not_usable" | "rate_limited" | "unauthorized")`.
   */
  #confirm(caller: PersonCaller, password: Secret | null): Promise<PersonSession> {
    const { db, hashes, limits: attempts, sessions } = this.#parts;
    return attempts.counted(limits.confirm, caller.personId, async () => {
      await hashes.run(() => requirePassword(db, caller, password));
      return sessions.required(db, caller);
    });
  }

  /**
   * The end of a visit after which better-auth opened no session: an account was connected, or the
   * visit was refused.
   */
  async #endWithoutSession(
    id: ProviderId,
    location: string,
    by: By,
  ): Promise<Pick<VisitEnd, "done" | "returnTo">> {
    const query = URL.parse(location, "http://localhost")?.searchParams;
    const code = query?.get("error") ?? null;
    const personId = query?.get("person") ?? null;
    const person = personId === null ? undefined : await personById(this.#parts.db, personId);
    if (person !== undefined && code === null)
      return { done: { kind: "connected" }, returnTo: accountPage };
    // Without a code the answer was not one of better-auth's, and the refusal is `failed`.
    const why = refusalOf(code ?? "");
    // The code comes from the URL, which anybody can write, so the log gets only its beginning.
    this.#parts.log.warn(
      { provider: id, code: code?.slice(0, 100) },
      "a visit to a provider was refused",
    );
    // A visit that is refused as `expired` may have ended in another browser than it began in, and
    // that browser's person is not known.
    const isKnown = person !== undefined && why !== "expired";
    const recordedBy = isKnown ? byPerson(person, by) : byAnybody(by);
    const action = person === undefined ? "person.sign_in" : "person.provider_connect";
    const attempt =
      person === undefined ? "A sign-in with a provider" : `Connecting an account with ${id}`;
    await recordOfPerson(this.#parts.db, {
      action,
      outcome: "failure",
      about: person ?? { id: null, email: "", name: "" },
      by: recordedBy,
      reason: `${attempt} was refused: ${why}.`,
    });
    return {
      done: { kind: "refused", why },
      returnTo: person === undefined ? dashboard : accountPage,
    };
  }

  /** Returns the URL to which better-auth's answer sends the browser, and the answer's cookies. */
  async #visit(id: ProviderId, request: Promise<Response>): Promise<VisitBegin> {
    const answer = await this.#waitFor(
      id,
      request.then(async (response) => ({
        cookies: response.headers.getSetCookie(),
        body: response.ok ? ((await response.json()) as { url?: unknown }) : {},
      })),
    );
    const { url } = answer.body;
    if (typeof url !== "string") throw this.#unavailable(id);
    return { url, cookies: answer.cookies };
  }

  /** Counts an attempt. Throws `Fault("rate_limited")`. */
  async #count(trier: Trier): Promise<void> {
    await this.#parts.limits.take(limits.secretAddress, this.#parts.deviceCookies.keyOf(trier));
  }

  /**
   * Opens better-auth once. If a provider's configuration is missing, each visit fetches it again.
   */
  async #open(id: ProviderId): Promise<ProviderAuth> {
    const { baseUrl, db, clock, log, mailer, secret, settings } = this.#parts;
    // Loading better-auth takes a tenth of a second, and most platforms have no provider.
    const { openProviderAuth } = await import("./provider-auth.ts");
    this.#auth ??= openProviderAuth({
      database: db,
      secret,
      baseUrl: baseUrl(),
      oidc: settings.oidc,
      github: settings.github,
      gate: new ProviderGate({ db, clock, log, mailer, settings }),
    });
    const context = await this.#waitFor(id, this.#auth.$context);
    const provider = context.socialProviders.find((candidate) => candidate.id === id);
    // Only a provider of OpenID Connect reports its issuer.
    if (id !== "oidc" || provider === undefined) return this.#auth;
    if (isSameIssuer(provider.issuer, settings.oidc?.url)) return this.#auth;
    log.error(
      { issuer: provider.issuer },
      "SLIPWAY_OIDC_ISSUER does not match the issuer that the provider reports",
    );
    throw this.#unavailable(id);
  }

  /** Waits for an answer of a provider. Throws `Fault("unavailable")` when it takes too long. */
  async #waitFor<T>(id: ProviderId, answer: Promise<T>): Promise<T> {
    try {
      return await withDeadline(this.#parts.clock, waitMs, answer);
    } catch (error) {
      throw error instanceof DeadlineExceeded ? this.#unavailable(id) : error;
    }
  }

  #unavailable(id: ProviderId): Fault {
    return new Fault(
      "unavailable",
      `${this.nameOf(id)} is not responding correctly at the moment; try again.`,
    );
  }
}

/** Whether the path may be returned to. With `..`, a browser would leave the dashboard's pages. */
function isReturn(path: string): boolean {
  return path.length <= returnLengthMax && returnForm.test(path) && !path.includes("..");
}

/** Compares issuers, ignoring slashes at the end; the setting has none there. */
function isSameIssuer(reported: string | undefined, configured: string | undefined): boolean {
  return reported !== undefined && reported.replace(/\/+$/, "") === configured;
}

/** The refusal that a code of better-auth stands for. */
function refusalOf(code: string): ProviderRefusal {
  if (gateRefusals.has(code)) return code as GateRefusal;
  if (code === "account_not_linked") return "address_not_proven";
  if (code === "account_already_linked_to_different_user") return "account_taken";
  if (code === "access_denied") return "refused";
  // better-auth cannot link an account when the session that began the visit has ended.
  return expiredCodes.has(code) || code === "unable_to_link_account" ? "expired" : "failed";
}
