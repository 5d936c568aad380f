// Parses the target of a request to `/v4/{project}/{app}/{path}`: the app, and the path for its
// replica. Pure. The path is kept byte for byte, including percent-encoding and inner slashes; only
// leading slashes are merged into one.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";

/** The destination of a call. */
export type Target = {
  readonly projectId: string;
  readonly appName: string;
  /**
   * The path below the app. It begins with `/` and includes the query, without the platform's own
   * parameters.
   */
  readonly path: string;
  /** True when `async=true` was given. */
  readonly isAsync: boolean;
  /** The URL of the webhook, decoded; null: none. */
  readonly webhookEndpoint: string | null;
  /** The app was called on a host name of its own; see lib/app-hosts.ts. */
  readonly hasOwnHost: boolean;
};

/** An app as a path names it. */
export type NamedApp = Pick<Target, "projectId" | "appName">;

/** The path of the app on the host name that apps share with the platform. */
function appPath({ projectId, appName }: NamedApp): string {
  return `/v4/${projectId}/${appName}`;
}

/**
 * The path that the client sees as the root of the app; empty if the host name says which app is
 * called.
 */
export function rootPathOf(target: Target): string {
  return target.hasOwnHost ? "" : appPath(target);
}

/** The path and query of the request to the replica. */
export function replicaPath(target: Target, settings: Pick<AppSettings, "keepPathPrefix">): string {
  return settings.keepPathPrefix ? appPath(target) + target.path : target.path;
}

const formHint = "App calls go to /v4/{project}/{app}/{path}.";
const reservedHint =
  "Paths below /_slipway of an app are reserved for the platform; calls cannot reach them.";
const challengeHint =
  "Paths below /.well-known/acme-challenge on an app's own host name are reserved for the platform, which gets its certificates.";
/** Where authorities look for the proof that somebody rules a host name (RFC 8555, 8.3). */
const challengePath = "/.well-known/acme-challenge/";
const schemeAndHost = /^https?:\/\/[^/?#]*/i;
/** The codes of two characters. */
const slash = 47;
const questionMark = 63;
const versionPrefix = "/v4";

/**
 * The path and query of a request target, with one leading slash. Scheme and host, which clients of
 * proxies send, are left out; usually the result is the string itself.
 */
export function originForm(url: string): string {
  if (url.charCodeAt(0) !== slash) url = url.replace(schemeAndHost, "");
  let start = 0;
  while (url.charCodeAt(start + 1) === slash && url.charCodeAt(start) === slash) start++;
  return start === 0 ? url : url.slice(start);
}

/** True for paths that the proxy answers; takes the result of `originForm`. */
export function isCallPath(url: string): boolean {
  return url.startsWith("/v4/") || url === "/v4";
}

/**
 * Parses a request target in the form of `originForm`; a `Fault` when it names no app or a
 * parameter is invalid. `hostApp`: the app whose host name was used. On that host name, too, the
 * app may be called by its path, since many apps write the path in front of their links.
 */
export function readTarget(url: string, hostApp: NamedApp | null): Target | Fault {
  if (hostApp === null) return readPath(url);
  // An app that answered could get a certificate for the name at any authority, and keep it when
  // the name is another app's.
  if (url.startsWith(challengePath)) return new Fault("not_found", challengeHint);
  const root = appPath(hostApp);
  // The character after the app's path; not a number if the text ends there.
  const nextCode = url.charCodeAt(root.length);
  const isNameEnd = Number.isNaN(nextCode) || nextCode === slash || nextCode === questionMark;
  const isBelow = url.startsWith(root) && isNameEnd;
  const target = readPath(isBelow ? url : `${root}${url}`);
  return target instanceof Fault ? target : { ...target, hasOwnHost: true };
}

/** The app that a path names, even if `readTarget` refuses the path; null: none. */
export function namedApp(url: string): NamedApp | null {
  const [, projectId, appName] = namedForm.exec(url) ?? [];
  return projectId === undefined || appName === undefined ? null : { projectId, appName };
}

const namedForm = /^\/v4\/+([^/?]+)\/+([^/?]+)/;

/** Parses a path that begins with `/v4`. */
function readPath(url: string): Target | Fault {
  const queryStart = url.indexOf("?");
  const pathEnd = queryStart === -1 ? url.length : queryStart;
  const projectStart = skipSlashes(url, versionPrefix.length, pathEnd);
  const projectEnd = segmentEnd(url, projectStart, pathEnd);
  const nameStart = skipSlashes(url, projectEnd, pathEnd);
  const nameEnd = segmentEnd(url, nameStart, pathEnd);
  if (projectStart === projectEnd || nameStart === nameEnd) return new Fault("not_found", formHint);
  const restStart = skipSlashes(url, nameEnd, pathEnd);
  if (isReserved(url, restStart, pathEnd)) return new Fault("not_found", reservedHint);
  const projectId = url.slice(projectStart, projectEnd);
  const appName = url.slice(nameStart, nameEnd);
  // One of the slashes before the rest belongs to the path.
  if (queryStart === -1) {
    const path = restStart === pathEnd ? "/" : url.slice(restStart - 1);
    return { projectId, appName, path, isAsync: false, webhookEndpoint: null, hasOwnHost: false };
  }
  const parts = readQuery(url.slice(queryStart + 1));
  if (parts instanceof Fault) return parts;
  const rest = restStart === pathEnd ? "/" : url.slice(restStart - 1, pathEnd);
  const { query, isAsync, webhookEndpoint } = parts;
  return {
    projectId,
    appName,
    path: rest + query,
    isAsync,
    webhookEndpoint,
    hasOwnHost: false,
  };
}

function skipSlashes(url: string, start: number, end: number): number {
  let at = start;
  while (at < end && url.charCodeAt(at) === slash) at++;
  return at;
}

function segmentEnd(url: string, start: number, end: number): number {
  const slashAt = url.indexOf("/", start);
  return slashAt === -1 || slashAt > end ? end : slashAt;
}

const underscore = "_";
const percent = "%";
const reservedWord = /_slipway/i;
/** The reserved name, alone or before a character that ends a word: `_slipways` is not reserved. */
const reservedSegment = /^_slipway(?![\w-])/;
/** A replica, or a server within it, may decode twice. */
const decodings = 2;

/**
 * True for a path that a replica could read as one of the platform's own, however it decodes
 * escapes, dots and slashes.
 */
function isReserved(url: string, start: number, end: number): boolean {
  const hasEscape = isWithin(url, percent, start, end);
  // Most paths return here. An underscore alone says little: function names often have one.
  if (!hasEscape && !isWithin(url, underscore, start, end)) return false;
  if (!hasEscape && !reservedWord.test(url)) return false;
  return isReservedPath(url.slice(start, end));
}

function isWithin(url: string, character: string, start: number, end: number): boolean {
  const at = url.indexOf(character, start);
  return at !== -1 && at < end;
}

/** Looks at the path as it is, and then after each decoding. */
function isReservedPath(rawPath: string): boolean {
  let path = rawPath;
  for (let round = 0; round <= decodings; round++) {
    if (leadsToReserved(path)) return true;
    path = path.replaceAll(/%([0-9a-f]{2})/gi, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    );
  }
  return false;
}

/**
 * True if a reserved segment stands at the root of the app once the dots before it are resolved.
 * Empty segments do not count as levels here. To a server that counts them, some of these paths
 * would not lead to a reserved segment, but they are refused all the same.
 */
function leadsToReserved(path: string): boolean {
  /** How many levels below the root of the app the next segment is. */
  let depth = 0;
  for (const segment of path.split(/[/\\]/)) {
    // Some servers first remove a segment's parameters, which follow a semicolon.
    const name = (segment.split(";", 1)[0] ?? "").trim().toLowerCase();
    if (depth === 0 && reservedSegment.test(name)) return true;
    if (name === "..") depth = Math.max(0, depth - 1);
    else if (name !== "" && name !== ".") depth++;
  }
  return false;
}

type QueryParts = {
  readonly query: string;
  readonly isAsync: boolean;
  readonly webhookEndpoint: string | null;
};

/**
 * Extracts the platform's own parameters; the others stay unchanged, in their order. The returned
 * `query` begins with `?` or is empty; the given one has no `?`.
 */
function readQuery(query: string): QueryParts | Fault {
  if (!query.includes("async") && !query.includes("webhookEndpoint")) {
    return { query: `?${query}`, isAsync: false, webhookEndpoint: null };
  }
  const otherParts: string[] = [];
  let isAsync: boolean | undefined;
  let webhookEndpoint: string | undefined;
  for (const part of query.split("&")) {
    const equals = part.indexOf("=");
    const name = equals === -1 ? part : part.slice(0, equals);
    const value = equals === -1 ? "" : part.slice(equals + 1);
    if (name === "async") {
      const flag = readBoolean(value);
      if (flag === undefined) return invalid(`async must be true or false; given: ${shown(value)}`);
      if (isAsync !== undefined && isAsync !== flag)
        return invalid("async is given twice, with different values");
      isAsync = flag;
    } else if (name === "webhookEndpoint") {
      const endpoint = decoded(value);
      if (endpoint === undefined)
        return invalid(`webhookEndpoint must be URL-encoded; given: ${shown(value)}`);
      if (webhookEndpoint !== undefined) return invalid("webhookEndpoint is given twice");
      webhookEndpoint = endpoint;
    } else {
      otherParts.push(part);
    }
  }
  const rest = otherParts.length === 0 ? "" : `?${otherParts.join("&")}`;
  return { query: rest, isAsync: isAsync ?? false, webhookEndpoint: webhookEndpoint ?? null };
}

function readBoolean(value: string): boolean | undefined {
  if (value === "true") return true;
  return value === "false" ? false : undefined;
}

function decoded(value: string): string | undefined {
  try {
    return decodeURIComponent(value.replaceAll("+", "%20"));
  } catch {
    // Invalid percent-encoding.
    return undefined;
  }
}

function invalid(message: string): Fault {
  return new Fault("invalid", message);
}

/** Truncates long values, so that an answer does not echo a whole request. */
function shown(value: string): string {
  return JSON.stringify(value.length > 100 ? `${value.slice(0, 100)}…` : value);
}
