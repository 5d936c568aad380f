// Cookies on their way between browsers and apps. All apps and the platform share one name and port, so a browser keeps
// their cookies in one place: each app's are bound to the app's own path, and the platform's own never reach an app. Pure.
import type { AppId, ProjectId } from "#lib/ids.ts";
import { trimmed } from "./fields.ts";

/** The platform's own (see api/session-cookie.ts), whose names no app may set; some browsers take one without a name for what its value says. */
const ownForm = /^[\s=]*(?:__(?:secure|host)-)?slipway[._]/i;
/** Browsers ignore attributes that are longer than this (RFC 6265bis, 5.6), and take the request's own path then. */
const pathLengthMax = 1_024;
/** `priority` decides which cookies go first when a browser has too many. */
const ownAttributes = new Set(["domain", "path", "priority"]);

/** Whose answer it is. */
type App = { readonly projectId: ProjectId; readonly appId: AppId };

const none: readonly string[] = Object.freeze([]);

/** What clients get as `Set-Cookie`: bound to the app's path, and without those that have a name of the platform's. */
export function cookiesOfApp(given: readonly string[] | null, app: App): readonly string[] {
  if (given === null) return none;
  const appName = app.appId.slice(app.projectId.length + 1);
  return given
    .filter((cookie) => !ownForm.test(cookie))
    .map((cookie) => bound(cookie, `/v4/${app.projectId}/${appName}`));
}

/** As lines of a head. */
export function cookieLines(cookies: readonly string[]): string {
  return cookies.map((cookie) => `Set-Cookie: ${cookie}\r\n`).join("");
}

/** The value of a `Cookie` field without the platform's own; empty when there are no others. */
export function withoutOwnCookies(value: string): string {
  if (!/slipway/i.test(value)) return value;
  const parts = value.split(";").filter((part) => !ownForm.test(part));
  return parts.join(";").trim();
}

/** The path comes first: browsers read a limited number of attributes. */
function bound(cookie: string, appPath: string): string {
  const [pair = "", ...attributes] = cookie.split(";");
  let path = "";
  let kept = "";
  for (const attribute of attributes) {
    const equals = attribute.indexOf("=");
    const name = trimmed(attribute, 0, equals === -1 ? attribute.length : equals).toLowerCase();
    if (!ownAttributes.has(name)) kept += `;${attribute}`;
    else if (name === "path") path = equals === -1 ? "" : trimmed(attribute, equals + 1, attribute.length);
  }
  return `${pair}; Path=${pathUnder(appPath, path)}${kept}`;
}

/** For an app the root is its own path, whether it knows that path or not. */
function pathUnder(appPath: string, given: string): string {
  if (!given.startsWith("/") || given === "/") return appPath;
  const path = given === appPath || given.startsWith(`${appPath}/`) ? given : appPath + given;
  return path.length > pathLengthMax ? appPath : path;
}
