// Filters cookies between browsers and apps. Apps that are called by a path share one host name and
// port with the platform, so a browser keeps their cookies together: each app's are bound to the
// app's path and host name, and the platform's own never reach an app. Pure.
import { trimmed } from "./fields.ts";

/**
 * The platform's own (see api/session-cookie.ts), whose names no app may set; some browsers read a
 * nameless cookie's value as a name.
 */
const ownForm = /^[\s=]*(?:__(?:secure|host)-)?slipway[._]/i;
/** Browsers ignore longer attributes (RFC 6265bis, 5.6) and then use the path of the request. */
const pathLengthMax = 1_024;
/** `priority` decides which cookies a browser evicts first. */
const ownAttributes = new Set(["domain", "path", "priority"]);

const none: readonly string[] = Object.freeze([]);

/**
 * The `Set-Cookie` values for clients: bound to the app's root, without those that use the
 * platform's names.
 */
export function cookiesOfApp(given: readonly string[] | null, rootPath: string): readonly string[] {
  if (given === null) return none;
  return given.filter((cookie) => !ownForm.test(cookie)).map((cookie) => bound(cookie, rootPath));
}

/** As lines of a head. */
export function cookieLines(cookies: readonly string[]): string {
  return cookies.map((cookie) => `Set-Cookie: ${cookie}\r\n`).join("");
}

/** The value of a `Cookie` field without the platform's own cookies; empty when none remain. */
export function withoutOwnCookies(value: string): string {
  if (!/slipway/i.test(value)) return value;
  const parts = value.split(";").filter((part) => !ownForm.test(part));
  return parts.join(";").trim();
}

/** The path comes first: browsers read a limited number of attributes. */
function bound(cookie: string, rootPath: string): string {
  const [pair = "", ...attributes] = cookie.split(";");
  let path = "";
  let kept = "";
  for (const attribute of attributes) {
    const equals = attribute.indexOf("=");
    const name = trimmed(attribute, 0, equals === -1 ? attribute.length : equals).toLowerCase();
    if (!ownAttributes.has(name)) kept += `;${attribute}`;
    else if (name === "path")
      path = equals === -1 ? "" : trimmed(attribute, equals + 1, attribute.length);
  }
  return `${pair}; Path=${pathUnder(rootPath, path)}${kept}`;
}

/** An app's root is its own path, whether or not it knows that path. */
function pathUnder(rootPath: string, given: string): string {
  if (rootPath === "") return given.startsWith("/") && given.length <= pathLengthMax ? given : "/";
  if (!given.startsWith("/") || given === "/") return rootPath;
  const path = given === rootPath || given.startsWith(`${rootPath}/`) ? given : rootPath + given;
  return path.length > pathLengthMax ? rootPath : path;
}
