// Apps share a host name and port with the platform, and therefore the same origin in the browser. A page of an app is
// written by the app's author, and must not act as the person who views it and is signed in to the dashboard. Pure.

/**
 * A policy for pages of apps: scripts run in an opaque origin, so they cannot read the dashboard and their requests carry
 * no cookie. It has no effect on content that is not shown as a page.
 */
export const pagePolicy = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/**
 * Whether pages of the app get the policy. Browsers open only pages of open apps: they send no token to others.
 * `pagesHost`: a lower-case host name under which nobody signs in to the dashboard; `host`: as the client sent it.
 */
export function isSandboxed(pagesHost: string | null, app: { readonly disableAuth: boolean }, host?: string): boolean {
  if (!app.disableAuth) return false;
  return pagesHost === null || host?.replace(/:\d*$/, "").toLowerCase() !== pagesHost;
}
