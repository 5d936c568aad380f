// What apps share with the platform that serves them: its name and port, and so the browser's idea of who they are. A page
// of an app is the work of whoever made the app, and must not act as the person who looks at it and is signed in to the
// dashboard. Pure.

/**
 * A policy for pages of apps: scripts run, but as those of a stranger (an opaque origin), who reads nothing of the dashboard
 * and whose requests bring no cookie. To what is not shown as a page it makes no difference.
 */
export const pagePolicy = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/**
 * Whether pages of the app get the policy. A browser opens those of open apps only: to others it sends no token. `pagesHost`:
 * a name of the host, in lower case, under which nobody signs in to the dashboard; `host` as the client sent it.
 */
export function isSandboxed(pagesHost: string | null, app: { readonly disableAuth: boolean }, host?: string): boolean {
  if (!app.disableAuth) return false;
  return pagesHost === null || host?.replace(/:\d*$/, "").toLowerCase() !== pagesHost;
}
