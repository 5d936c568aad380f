// Decides which pages of other origins may call an app and read its answers (CORS). If the app's
// settings name origins, the platform answers for the app, even when no replica gets the request;
// otherwise the app answers itself. Pages of open apps run in a sandbox, where their origin is
// `null`, and may load scripts, styles and fonts of the app. Pure.
import type { AppRoute } from "#apps/routes.ts";
import type { CorsSettings } from "#apps/stored-settings.ts";
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import { addedFields, type AddedFields } from "./added-fields.ts";
import type { OwnAnswer } from "./refusal.ts";
import type { RequestFields } from "./request-fields.ts";
import { siteFields } from "./site.ts";

/** A request, and the app that it is for. */
export type CorsRequest = {
  readonly route: AppRoute | undefined;
  readonly fields: RequestFields;
  /** The app is called on a host name of its own; see lib/app-hosts.ts. */
  readonly hasOwnHost: boolean;
};

/** The request headers that pages may always send: all that calls of any kind use. */
const usualHeaders =
  "Authorization, Content-Type, Idempotency-Key, Slipway-Retries, X-Webhook-Secret";
/** The methods that pages may use. */
const methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
/**
 * How long browsers may cache the answer to a preflight. They allow two hours and more, but a
 * changed setting should take effect sooner.
 */
const maxAgeSeconds = 600;
/** A list of header names, of no more than a reasonable length. */
const headersForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z, ]{1,4000}$/;

/** The fields that are added to the answer to a request; see `AddedFields`. */
export function addedToAnswers({ route, hasOwnHost, fields }: CorsRequest): AddedFields {
  const isOpen = route?.disableAuth === true;
  const site = siteFields({ disableAuth: isOpen, hasOwnHost });
  const settings = corsOf(route);
  if (settings === null) {
    const isSandboxed = isOpen && !hasOwnHost && fields.origin === "null";
    return isSandboxed ? inSandbox : siteOnly(site);
  }
  const allowed = allowedOrigin(settings, fields);
  // `Vary: Origin` makes caches keep an answer for each origin. The site's own fields may have it.
  const varied = site.includes("Origin") ? site : [...site, "Vary", "Origin"];
  if (allowed === null) return addedFields(varied, { replacesCors: true });
  const { corsCredentials } = settings;
  // With credentials, browsers do not take `*` for all headers.
  const exposedHeaders = corsCredentials ? "X-Request-Id, Retry-After" : "*";
  const corsFields = [
    ...permission(allowed, corsCredentials),
    "Access-Control-Expose-Headers",
    exposedHeaders,
  ];
  return addedFields([...varied, ...corsFields], { replacesCors: true });
}

/**
 * A page from elsewhere can have the origin `null`, too. Therefore pages of this origin may read
 * only code, no data: anybody may call an open app, but such a page calls it from within the
 * network of the person who opens the page.
 */
const openInSandbox = siteFields({ disableAuth: true, hasOwnHost: false });
const assetsInSandbox = addedFields([...openInSandbox, ...permission("null", false)], {
  replacesCors: true,
});
const inSandbox = addedFields(openInSandbox, { ofAssets: assetsInSandbox });

/**
 * The answer to a preflight, by which a browser asks whether a page may send a request; preflights
 * never have a token. `app`: the app answers the preflight itself; null: the request is no
 * preflight, or its app does not answer preflights.
 */
export function preflightAnswer(
  method: string,
  request: CorsRequest,
  runId: RunId,
): OwnAnswer | Fault | "app" | null {
  const { route, fields } = request;
  if (method !== "OPTIONS" || !isPreflight(fields) || route === undefined) return null;
  const settings = corsOf(route);
  if (settings === null) return route.live?.settings.runtime === "custom" ? "app" : null;
  if (allowedOrigin(settings, fields) === null) {
    return new Fault("forbidden", refusalOf(fields.origin ?? "", route.appName));
  }
  // `addedToAnswers` gives the fields that this answer has in common with others.
  const answerFields = [
    ["X-Request-Id", runId],
    ["Access-Control-Allow-Methods", methods],
    ["Access-Control-Allow-Headers", allowedHeaders(settings, fields)],
    ["Access-Control-Max-Age", String(maxAgeSeconds)],
    ["Vary", "Access-Control-Request-Headers"],
  ];
  return { status: 204, fields: answerFields.flat(), body: Buffer.alloc(0) };
}

/** A browser's preflight has an origin and a requested method, and neither a token nor a body. */
function isPreflight(fields: RequestFields): boolean {
  const { origin, requestedMethod, authorization, contentLength, isChunked } = fields;
  const hasBody = isChunked || contentLength > 0;
  return (
    origin !== undefined && requestedMethod !== undefined && authorization === undefined && !hasBody
  );
}

/** The settings that name the allowed origins; null: none are set, so the app answers itself. */
function corsOf(route: AppRoute | undefined): CorsSettings | null {
  // The settings hold without a release, too: pages may read why the app does not answer.
  const settings = route?.live?.settings ?? route?.cors;
  return settings === undefined || settings.corsOrigins.length === 0 ? null : settings;
}

function allowedOrigin({ corsOrigins }: CorsSettings, { origin }: RequestFields): string | null {
  if (origin === undefined) return null;
  if (corsOrigins.includes(origin)) return origin;
  return corsOrigins.includes("*") ? "*" : null;
}

/** The fields by which pages of the origin may read an answer: name, value, … */
function permission(origin: string, credentials: boolean): string[] {
  const fields = ["Access-Control-Allow-Origin", origin];
  if (credentials) fields.push("Access-Control-Allow-Credentials", "true");
  return fields;
}

function allowedHeaders(
  { corsHeaders }: CorsSettings,
  { requestedHeaders = "" }: RequestFields,
): string {
  if (corsHeaders.includes("*") && headersForm.test(requestedHeaders)) return requestedHeaders;
  return [usualHeaders, ...corsHeaders.filter((name) => name !== "*")].join(", ");
}

function refusalOf(origin: string, appName: string): string {
  const shown = origin.length > 100 ? `${origin.slice(0, 100)}…` : origin;
  return `${appName} does not take calls from pages of ${shown}: corsOrigins of the app does not name it.`;
}

const siteAnswers = new Map<readonly string[], AddedFields>();

/**
 * The fields of the site alone, which most answers get. There are few such lists, so each is turned
 * into lines only once.
 */
function siteOnly(site: readonly string[]): AddedFields {
  const cached = siteAnswers.get(site);
  if (cached !== undefined) return cached;
  const added = addedFields(site);
  siteAnswers.set(site, added);
  return added;
}
