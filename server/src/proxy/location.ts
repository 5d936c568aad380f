// Corrects the redirects of an app for its client: the app answers below `/`, but the client sees
// the app below a path. Called only for the few answers that have a `Location`, which is compared
// with the fields that the app received about its client. Pure.

/** Scheme, which may be absent; host and port; the rest. */
const absoluteForm = /^(https?:)?\/\/([^/?#]*)(.*)$/i;
/** A path of the platform: it leads to another app, or the app has already added its own path. */
const platformForm = /^\/v4\/(?:dev-)?p-[0-9a-f]{8}(?:[/?#]|$)/;

/**
 * The `Location` for the client. `lines` are the field lines that the app received. A path from the
 * root, even after the app's own host name, gets the app's path in front, unless it is already
 * there or the app has a host name of its own. Anything else (a relative path, another host) is
 * returned as it is.
 */
export function locationOfApp(location: string, lines: string): string {
  const prefix = lineValue(lines, "X-Forwarded-Prefix") ?? "";
  const absolute = absoluteForm.exec(location);
  if (absolute === null) return location.startsWith("/") ? withPrefix(prefix, location) : location;
  const [, scheme = "", authority = "", path = ""] = absolute;
  const host = lineValue(lines, "X-Forwarded-Host");
  const ownNames = [host, lineValue(lines, "Host")].map((name) => name?.toLowerCase());
  if (!ownNames.includes(authority.toLowerCase())) return location;
  const rooted = withPrefix(prefix, path.startsWith("/") ? path : `/${path}`);
  // An app that does not read X-Forwarded-Proto takes its client's TLS connection for a plain one.
  const isSecure = lineValue(lines, "X-Forwarded-Proto") === "https";
  if (host === null) return rooted;
  const clientScheme = isSecure && scheme !== "" ? "https:" : scheme;
  return `${clientScheme}//${host}${rooted}`;
}

function withPrefix(prefix: string, path: string): string {
  return platformForm.test(path) ? path : prefix + path;
}

/**
 * The value of a line; null: there is none. No line that is read here can occur twice. The blanks
 * are left to `trim`: a pattern for them takes quadratic time for a `Host` full of blanks.
 */
function lineValue(lines: string, name: string): string | null {
  return new RegExp(`^${name}:(.*)$`, "im").exec(lines)?.[1]?.trim() ?? null;
}
