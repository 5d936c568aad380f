// Filters cookies between browsers and apps. Apps that are called by a path share a host name with
// the platform and each other, and browsers keep cookies by host name. Therefore an app's cookies
// are bound to its path and host name, and the platform's cookies never reach an app. Pure.
import { trimmed } from "./fields.ts";

/**
 * The platform's cookies (see api/session-cookie.ts), which no app may set. The leading `=` is for
 * cookies without a name, whose value some browsers read as the name.
 */
const platformForm = /^[\s=]*(?:__(?:secure|host)-)?slipway[._]/i;
/** Browsers ignore longer attributes (RFC 6265bis, 5.6) and then use the path of the request. */
const pathLengthMax = 1_024;
/** Attributes that an app may not set. `priority` decides which cookies a browser evicts first. */
const droppedAttributes = new Set(["domain", "path", "priority"]);

const noCookies: readonly string[] = Object.freeze([]);

/**
 * Turns the app's `Set-Cookie` values into the values for the client: bound to the app's root, and
 * without cookies that use names of the platform.
 */
export function cookiesOfApp(
  cookies: readonly string[] | null,
  rootPath: string,
): readonly string[] {
  if (cookies === null) return noCookies;
  const allowed = cookies.filter((cookie) => !platformForm.test(cookie));
  return allowed.map((cookie) => bindToRoot(cookie, rootPath));
}

/** The cookies as header lines, each with its line end. */
export function cookieLines(cookies: readonly string[]): string {
  return cookies.map((cookie) => `Set-Cookie: ${cookie}\r\n`).join("");
}

/** The value of a `Cookie` field without the platform's own cookies; empty when none remain. */
export function withoutOwnCookies(value: string): string {
  // Most requests have no cookie of the platform.
  if (!/slipway/i.test(value)) return value;
  const parts = value.split(";").filter((part) => !platformForm.test(part));
  return parts.join(";").trim();
}

/**
 * Binds the cookie to the app's root, or to its own path there; the last `Path` counts. Puts the
 * path before other attributes, of which browsers read a limited number.
 */
function bindToRoot(cookie: string, rootPath: string): string {
  const [pair = "", ...attributes] = cookie.split(";");
  let path = "";
  let others = "";
  for (const attribute of attributes) {
    const equals = attribute.indexOf("=");
    const nameEnd = equals === -1 ? attribute.length : equals;
    const name = trimmed(attribute, 0, nameEnd).toLowerCase();
    if (!droppedAttributes.has(name)) others += `;${attribute}`;
    else if (name === "path")
      path = equals === -1 ? "" : trimmed(attribute, equals + 1, attribute.length);
  }
  return `${pair}; Path=${pathUnder(rootPath, path)}${others}`;
}

/**
 * The path of an app's cookie as browsers see it, below the app's root. The app may have set a path
 * below `rootPath`, or one that begins at its own root.
 */
function pathUnder(rootPath: string, path: string): string {
  const isAbsolute = path.startsWith("/");
  if (rootPath === "") return isAbsolute && path.length <= pathLengthMax ? path : "/";
  if (!isAbsolute || path === "/") return rootPath;
  const isBelowRoot = path === rootPath || path.startsWith(`${rootPath}/`);
  const fullPath = isBelowRoot ? path : rootPath + path;
  return fullPath.length > pathLengthMax ? rootPath : fullPath;
}
