// Apps share a host name and port with the platform, and therefore the same origin in the browser.
// This file gives the fields that keep a page of an app, which is written by the app's author, from
// acting as the person who views it and is signed in to the dashboard. If an app has a host name of
// its own (lib/app-hosts.ts), its pages run without limits. Pure.

/**
 * A policy for pages of apps: scripts run in an opaque origin, so they cannot read the dashboard
 * and their requests carry no cookie. It has no effect on content that is not shown as a page.
 */
const pagePolicy = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/** `disableAuth`: the app takes calls without tokens; `hasOwnHost`: as in `Target`. */
type SiteOptions = { readonly disableAuth: boolean; readonly hasOwnHost: boolean };

/**
 * The fields that every answer of an app gets. If the app requires tokens, they say that its
 * answers vary by token: a script may have put such an answer into the browser's cache, and a visit
 * without a token must not get it from there.
 */
export function siteFields({ disableAuth, hasOwnHost }: SiteOptions): readonly string[] {
  if (hasOwnHost) return disableAuth ? noFields : variesByToken;
  return disableAuth ? openOnPath : closedOnPath;
}

const noFields: readonly string[] = [];
const variesByToken: readonly string[] = ["Vary", "Authorization"];
const policy: readonly string[] = ["Content-Security-Policy", pagePolicy];
/** For answers that vary by origin: a page in the sandbox gets further fields (see cors.ts). */
const openOnPath: readonly string[] = [...policy, "Vary", "Origin"];
const closedOnPath: readonly string[] = [...policy, ...variesByToken];
