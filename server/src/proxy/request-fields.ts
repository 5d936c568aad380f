// Parses the header fields of a call once: what they mean to the proxy, and the lines for its
// replica. Pure.
import { withoutOwnCookies } from "./cookies.ts";
import { believed, type Origin } from "#lib/trusted-proxies.ts";
import { FieldReader, type FieldKind } from "./fields.ts";

/**
 * The fields of one request. Immutable once constructed, so it is shared by all requests with the
 * same lines.
 */
export class RequestFields extends FieldReader {
  /**
   * Lines for the replica, each with its line end; without framing, tokens and what the proxy adds.
   */
  readonly passed: string;
  /** The caller's own, for apps without authentication. */
  authorizationLines = "";
  authorization: string | undefined = undefined;
  /** The rest of the lines that held cookies of the platform. */
  cookieLines = "";
  host: string | undefined = undefined;
  /** Bytes; -1: no such field. */
  contentLength = -1;
  isChunked = false;
  expectsContinue = false;
  /** The client accepts trailers in the answer. */
  takesTrailers = false;
  /** It is the last request on its connection. */
  closes = false;
  /** It asks for something that concerns the connection or the framing of bodies. */
  isSpecial = false;
  /** From the proxies in front of this one. */
  forwardedFor: string | undefined = undefined;
  forwardedProto: string | undefined = undefined;
  forwardedHost: string | undefined = undefined;
  /** The origin of the page that a browser asks for; `null`: of none that can be named. */
  origin: string | undefined = undefined;
  /** What a browser asks for a page whether it may send. */
  requestedMethod: string | undefined = undefined;
  requestedHeaders: string | undefined = undefined;
  /** How the body is coded; undefined: it is not. */
  contentCoding: string | undefined = undefined;
  /** Why it cannot be passed on; null: it can. */
  refused: string | null = null;
  #sentFor: LineContext | null = null;
  #sent = "";

  /**
   * Lines that match `fieldLinesForm`, one character per byte, or a list in the format of node's
   * parser.
   */
  constructor(given: string | readonly string[]) {
    super();
    this.passed = typeof given === "string" ? this.read(given, 0) : this.readList(given);
  }

  /**
   * All lines for the replica except framing and the call's id; cached for the next call with the
   * same context.
   */
  linesFor(context: LineContext): string {
    const known = this.#sentFor;
    if (known !== null && isSame(known, context)) return this.#sent;
    // Optional for HTTP/1.0 clients; HTTP/1.1 demands it.
    const host = this.host === undefined ? "Host: app\r\n" : "";
    this.#sent = `${host}${this.passed}${this.cookieLines}${addedLines(this, context)}`;
    this.#sentFor = context;
    return this.#sent;
  }

  protected override take(kind: FieldKind, value: string): boolean {
    switch (kind) {
      case "trailer":
      case "date":
      case "set-cookie":
      case "location":
        return true;
      case "cookie":
        return this.#takeCookie(value);
      case "origin":
        this.origin = value;
        return true;
      case "access-control-request-method":
        this.requestedMethod = value;
        return true;
      case "access-control-request-headers":
        this.requestedHeaders = value;
        return true;
      case "content-encoding":
        this.contentCoding = joined(this.contentCoding, value);
        return true;
      case "host":
        if (this.host !== undefined) this.refused = "The field Host is given twice.";
        this.host = value;
        return true;
      case "authorization":
        this.authorization ??= value;
        this.authorizationLines += `Authorization: ${value}\r\n`;
        return false;
      case "content-length":
        this.#takeLength(value);
        return false;
      case "connection":
        this.#takeConnection(value);
        return false;
      default:
        this.#takeRare(kind, value);
        return false;
    }
  }

  /** Apps must not see the platform's own cookies. */
  #takeCookie(value: string): boolean {
    const others = withoutOwnCookies(value);
    if (others === value) return true;
    if (others !== "") this.cookieLines += `Cookie: ${others}\r\n`;
    return false;
  }

  #takeConnection(value: string): void {
    const lower = value.toLowerCase();
    if (lower === "close") this.closes = true;
    else if (lower !== "keep-alive") this.isSpecial = true;
    this.takeConnection(value);
  }

  #takeLength(value: string): void {
    if (this.contentLength !== -1) this.refused = "The field Content-Length is given twice.";
    if (!/^[0-9]{1,15}$/.test(value))
      this.refused = "The field Content-Length is not a number of bytes.";
    this.contentLength = Number(value);
  }

  #takeRare(kind: FieldKind, value: string): void {
    switch (kind) {
      case "transfer-encoding":
        if (this.isChunked || value.toLowerCase() !== "chunked") {
          this.refused = "The only supported transfer coding is chunked.";
        }
        this.isChunked = true;
        this.isSpecial = true;
        break;
      case "expect":
        this.expectsContinue = value.toLowerCase() === "100-continue";
        this.isSpecial = true;
        break;
      case "te":
        this.takesTrailers ||= /(?:^|,)\s*trailers\s*(?:;|,|$)/i.test(value);
        this.isSpecial = true;
        break;
      case "upgrade":
        this.isSpecial = true;
        break;
      case "forwarded-for":
        this.forwardedFor = joined(this.forwardedFor, value);
        break;
      case "forwarded-proto":
        this.forwardedProto = joined(this.forwardedProto, value);
        break;
      case "forwarded-host":
        this.forwardedHost = joined(this.forwardedHost, value);
        break;
      default:
    }
  }
}

/** What the lines for a replica depend on besides the request itself. */
export type LineContext = {
  readonly origin: Origin;
  /** The app. `disableAuth`: it accepts every call, so it handles the callers' tokens itself. */
  readonly route: { readonly disableAuth: boolean };
  /**
   * The app's root for the client, without a slash at its end; empty: the app is on a host name of
   * its own.
   */
  readonly rootPath: string;
};

const protoForm = /^(?:http|ws)s?$/i;
const hostForm = /^[\w.:[\]-]{1,255}$/;

/**
 * The lines that describe the client to the app (de facto standard; the newer `Forwarded` is not
 * passed on), the path that is the app's root for the client, and the caller's own token for an
 * open app.
 */
export function addedLines(
  fields: RequestFields,
  { origin, route, rootPath }: LineContext,
): string {
  const { peer, proxies } = origin;
  const before = proxies === 0 ? "" : (fields.forwardedFor ?? "");
  const chain = before === "" ? peer : `${before}, ${peer}`;
  const proto = believed(origin, fields.forwardedProto, protoForm)?.toLowerCase() ?? "http";
  const host = believed(origin, fields.forwardedHost, hostForm) ?? fields.host;
  const hostLine = host === undefined ? "" : `X-Forwarded-Host: ${host}\r\n`;
  const tokens = route.disableAuth ? fields.authorizationLines : "";
  const root = rootPath === "" ? "" : `X-Forwarded-Prefix: ${rootPath}\r\n`;
  return `${tokens}X-Forwarded-For: ${chain}\r\nX-Forwarded-Proto: ${proto}\r\n${hostLine}${root}`;
}

function isSame(one: LineContext, other: LineContext): boolean {
  const { peer, proxies } = one.origin;
  const isSamePeer = peer === other.origin.peer && proxies === other.origin.proxies;
  return isSamePeer && one.route === other.route && one.rootPath === other.rootPath;
}

/** Repeated fields form one list (RFC 9110, 5.3). */
function joined(before: string | undefined, value: string): string {
  return before === undefined ? value : `${before}, ${value}`;
}
