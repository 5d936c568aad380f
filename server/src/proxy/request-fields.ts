// Parses the header fields of a call once: what they mean to the proxy, and the lines for its
// replica. Pure.
import { withoutOwnCookies } from "./cookies.ts";
import { believed, type Origin } from "#lib/trusted-proxies.ts";
import { FieldReader, type FieldKind } from "./fields.ts";

/**
 * The fields of one request. They do not change once the request is handled, so all plain calls
 * with the same lines can share one object.
 */
export class RequestFields extends FieldReader {
  /**
   * The lines for the replica, each with its line end; without framing, tokens and the lines that
   * the proxy adds.
   */
  readonly passed: string;
  /** The caller's `Authorization` lines, for apps without authentication. */
  authorizationLines = "";
  /** The first `Authorization`, which has the token that the platform checks. */
  authorization: string | undefined = undefined;
  /** The `Cookie` lines that held cookies of the platform, without these cookies. */
  cookieLines = "";
  /** The host name that the client called, perhaps with a port. */
  host: string | undefined = undefined;
  /** The length of the body in bytes; -1: the field is missing. */
  contentLength = -1;
  /** The body is sent in chunks, and its length is not known. */
  isChunked = false;
  /** The client waits for a status 100 before it sends the body. */
  expectsContinue = false;
  /** The client accepts trailers in the answer. */
  takesTrailers = false;
  /** The request is the last one on its connection. */
  closes = false;
  /**
   * The request asks for something that concerns the connection or the framing of bodies, so that
   * it is not a plain call.
   */
  isSpecial = false;
  /** The `X-Forwarded-…` fields, which proxies in front of this one set. */
  forwardedFor: string | undefined = undefined;
  forwardedProto: string | undefined = undefined;
  forwardedHost: string | undefined = undefined;
  /** The origin of the page that a browser sends the request for; `"null"`: one without a name. */
  origin: string | undefined = undefined;
  /** The method and the headers that a browser's preflight asks about. */
  requestedMethod: string | undefined = undefined;
  requestedHeaders: string | undefined = undefined;
  /** The content coding of the body; undefined: none. */
  contentCoding: string | undefined = undefined;
  /** Why the request cannot be passed on; null: it can be. */
  refused: string | null = null;
  /** For which context `#cachedLines` are; null: there are none yet. */
  #cachedContext: LineContext | null = null;
  #cachedLines = "";

  /**
   * `source`: lines that match `fieldLinesForm`, one character per byte, or a list in the format of
   * Node's parser.
   */
  constructor(source: string | readonly string[]) {
    super();
    this.passed = typeof source === "string" ? this.read(source, 0) : this.readList(source);
  }

  /**
   * All lines for the replica except framing and the call's id; cached for the next call with the
   * same context.
   */
  linesFor(context: LineContext): string {
    const cachedContext = this.#cachedContext;
    if (cachedContext !== null && isSame(cachedContext, context)) return this.#cachedLines;
    // HTTP/1.0 clients may leave out `Host`, but HTTP/1.1 requires it.
    const host = this.host === undefined ? "Host: app\r\n" : "";
    this.#cachedLines = `${host}${this.passed}${this.cookieLines}${addedLines(this, context)}`;
    this.#cachedContext = context;
    return this.#cachedLines;
  }

  protected override take(kind: FieldKind, value: string): boolean {
    switch (kind) {
      // The proxy treats these fields only in answers.
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
    // A number holds 15 digits exactly.
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
      // A field of another kind is left out, and means nothing to the proxy.
    }
  }
}

/** The facts besides the request itself on which the lines for a replica depend. */
export type LineContext = {
  readonly origin: Origin;
  /** `disableAuth`: the app accepts every call, so it gets the callers' tokens and checks them. */
  readonly route: { readonly disableAuth: boolean };
  /**
   * The app's root for the client, without a slash at its end; empty: the app is on a host name of
   * its own.
   */
  readonly rootPath: string;
};

/** A scheme by which a client reached the first proxy. */
const protoForm = /^(?:http|ws)s?$/i;
/** A host name or an address, perhaps with a port. */
const hostForm = /^[\w.:[\]-]{1,255}$/;

/**
 * The lines that the proxy adds: the description of the client (`X-Forwarded-…`; the newer
 * `Forwarded` is not passed on), the path that is the app's root for the client, and the caller's
 * own token for an open app.
 */
export function addedLines(
  fields: RequestFields,
  { origin, route, rootPath }: LineContext,
): string {
  const { peer, proxies, isEncrypted } = origin;
  // Without a trusted proxy, the client itself wrote X-Forwarded-For, which is not believed then.
  const earlierHops = proxies === 0 ? "" : (fields.forwardedFor ?? "");
  const chain = earlierHops === "" ? peer : `${earlierHops}, ${peer}`;
  const ownProto = isEncrypted ? "https" : "http";
  const proto = believed(origin, fields.forwardedProto, protoForm)?.toLowerCase() ?? ownProto;
  const host = believed(origin, fields.forwardedHost, hostForm) ?? fields.host;
  const hostLine = host === undefined ? "" : `X-Forwarded-Host: ${host}\r\n`;
  const tokens = route.disableAuth ? fields.authorizationLines : "";
  const root = rootPath === "" ? "" : `X-Forwarded-Prefix: ${rootPath}\r\n`;
  return `${tokens}X-Forwarded-For: ${chain}\r\nX-Forwarded-Proto: ${proto}\r\n${hostLine}${root}`;
}

function isSame(context: LineContext, other: LineContext): boolean {
  const { peer, proxies, isEncrypted } = context.origin;
  const isSamePeer =
    peer === other.origin.peer &&
    proxies === other.origin.proxies &&
    isEncrypted === other.origin.isEncrypted;
  return isSamePeer && context.route === other.route && context.rootPath === other.rootPath;
}

/** The values of a repeated field form one list (RFC 9110, 5.3). */
function joined(earlier: string | undefined, value: string): string {
  return earlier === undefined ? value : `${earlier}, ${value}`;
}
