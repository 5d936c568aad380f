// Apps share a host name and port with the platform, and therefore the same origin in the browser.
// A page of an app is written by the app's author, and must not act as the person who views it and
// is signed in to the dashboard. Only on the host name of its own (lib/app-hosts.ts) does a page
// run without limits. Pure.

/**
 * A policy for pages of apps: scripts run in an opaque origin, so they cannot read the dashboard
 * and their requests carry no cookie. It has no effect on content that is not shown as a page.
 */
const pagePolicy = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/**
 * What an answer depends on: whether an app takes tokens, and whether it is on a host name of its
 * own.
 */
type Shown = { readonly disableAuth: boolean; readonly hasOwnHost: boolean };

/**
 * The lines that every answer of an app gets. Apps with tokens too: a script may store an answer in
 * the browser's cache, from where a visit without a token must not get it.
 */
export function siteFields({ disableAuth, hasOwnHost }: Shown): readonly string[] {
  if (hasOwnHost) return disableAuth ? none : varies;
  return disableAuth ? openOnPath : closedOnPath;
}

const none: readonly string[] = [];
const varies: readonly string[] = ["Vary", "Authorization"];
const policy: readonly string[] = ["Content-Security-Policy", pagePolicy];
/** Pages in the sandbox get other lines for their own files: see cors.ts. */
const openOnPath: readonly string[] = [...policy, "Vary", "Origin"];
const closedOnPath: readonly string[] = [...policy, ...varies];
