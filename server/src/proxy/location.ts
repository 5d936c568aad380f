// Puts the redirects of an app right for its client: the app answers below `/`, the client sees it
// below a path. Called for the few answers that have a `Location`; it compares with what the app
// itself was told about its client. Pure.

const absoluteForm = /^(https?:)?\/\/([^/?#]*)(.*)$/i;
/** A path of the platform: the app means another app, or has already put its own root first. */
const platformForm = /^\/v4\/(?:dev-)?p-[0-9a-f]{8}(?:[/?#]|$)/;

/**
 * The `Location` for the client. `lines`: those that the app was sent. A path from the root, also
 * at the app's own address, gets the app's path in front unless it is already there, or the app is
 * on a host name of its own. Anything else (a relative path, another host) is returned as it is.
 */
export function locationOfApp(location: string, lines: string): string {
  const prefix = lineValue(lines, "X-Forwarded-Prefix") ?? "";
  const absolute = absoluteForm.exec(location);
  if (absolute === null) return location.startsWith("/") ? below(prefix, location) : location;
  const [, scheme = "", authority = "", path = ""] = absolute;
  const host = lineValue(lines, "X-Forwarded-Host");
  const names = [host, lineValue(lines, "Host")].map((name) => name?.toLowerCase());
  if (!names.includes(authority.toLowerCase())) return location;
  const rooted = below(prefix, path.startsWith("/") ? path : `/${path}`);
  // An app that does not read X-Forwarded-Proto takes its client's TLS connection for a plain one.
  const isSecure = lineValue(lines, "X-Forwarded-Proto") === "https";
  return host === null
    ? rooted
    : `${isSecure && scheme !== "" ? "https:" : scheme}//${host}${rooted}`;
}

function below(prefix: string, path: string): string {
  return platformForm.test(path) ? path : prefix + path;
}

/**
 * Clients cannot write a line of these names twice, nor those that the platform adds. The form
 * leaves the blanks to `trim`: matching them too takes quadratic time for a `Host` full of blanks.
 */
function lineValue(lines: string, name: string): string | null {
  return new RegExp(`^${name}:(.*)$`, "im").exec(lines)?.[1]?.trim() ?? null;
}
