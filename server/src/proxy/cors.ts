// Which pages of other origins may call an app and read the answers (CORS): those that its settings
// name. The platform answers for the app then, also where no replica is asked; without the settings
// an app says so itself. Besides, pages of open apps load scripts, styles and fonts of the app in
// the sandbox, where their origin is `null`. Pure.
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

/** What calls take that use everything of the platform. */
const usualHeaders =
  "Authorization, Content-Type, Idempotency-Key, Slipway-Retries, X-Webhook-Secret";
const methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
/**
 * Firefox and Chromium ask again after two hours at the latest; a changed setting should hold
 * sooner.
 */
const maxAgeSeconds = 600;
const headersForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z, ]{1,4000}$/;

/** What the answer to a request gets; see `AddedFields`. */
export function addedToAnswers({ route, hasOwnHost, fields }: CorsRequest): AddedFields {
  const isOpen = route?.disableAuth === true;
  const site = siteFields({ disableAuth: isOpen, hasOwnHost });
  const settings = corsOf(route);
  if (settings === null)
    return isOpen && !hasOwnHost && fields.origin === "null" ? inSandbox : siteOnly(site);
  const allowed = allowedOrigin(settings, fields);
  const varied = site.includes("Origin") ? site : [...site, "Vary", "Origin"];
  if (allowed === null) return addedFields(varied, { replacesCors: true });
  const { corsCredentials } = settings;
  const shown = corsCredentials ? "X-Request-Id, Retry-After" : "*";
  const own = [...permission(allowed, corsCredentials), "Access-Control-Expose-Headers", shown];
  return addedFields([...varied, ...own], { replacesCors: true });
}

/**
 * A page of elsewhere can have the origin `null`, too. Therefore only answers that are code, and no
 * data: anybody can have those of an open app anyway, but not from within the network of whoever
 * opens the page.
 */
const openInSandbox = siteFields({ disableAuth: true, hasOwnHost: false });
const assetsInSandbox = addedFields([...openInSandbox, ...permission("null", false)], {
  replacesCors: true,
});
const inSandbox = addedFields(openInSandbox, { ofAssets: assetsInSandbox });

/**
 * The answer to a browser's question whether a page may send a request (a preflight, which never
 * has a token); `app`: the app answers it itself; null: it is none, or for an app that does not
 * answer such questions.
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
  const answer = [
    "X-Request-Id",
    runId,
    "Access-Control-Allow-Methods",
    methods,
    "Access-Control-Allow-Headers",
    allowedHeaders(settings, fields),
    "Access-Control-Max-Age",
    String(maxAgeSeconds),
    "Vary",
    "Access-Control-Request-Headers",
  ];
  return { status: 204, fields: answer, body: Buffer.alloc(0) };
}

/** One that a browser sends by itself has all of this, and nothing more. */
function isPreflight(fields: RequestFields): boolean {
  const { origin, requestedMethod, authorization, contentLength, isChunked } = fields;
  const hasBody = isChunked || contentLength > 0;
  return (
    origin !== undefined && requestedMethod !== undefined && authorization === undefined && !hasBody
  );
}

/** Null: the app has its own word. */
function corsOf(route: AppRoute | undefined): CorsSettings | null {
  // Pages may read why an app without a release does not answer, too.
  const settings = route?.live?.settings ?? route?.cors;
  return settings === undefined || settings.corsOrigins.length === 0 ? null : settings;
}

function allowedOrigin({ corsOrigins }: CorsSettings, { origin }: RequestFields): string | null {
  if (origin === undefined) return null;
  if (corsOrigins.includes(origin)) return origin;
  return corsOrigins.includes("*") ? "*" : null;
}

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

/** Most answers get nothing else, so each of the few lists becomes lines once. */
function siteOnly(site: readonly string[]): AddedFields {
  const known = siteAnswers.get(site);
  if (known !== undefined) return known;
  const added = addedFields(site);
  siteAnswers.set(site, added);
  return added;
}
