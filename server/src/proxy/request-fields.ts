// Reads the header fields of a call once: what they say to the proxy, and the lines that its replica gets. Pure.
import { withoutOwnCookies } from "./cookies.ts";
import { FieldReader, type FieldKind } from "./fields.ts";

/** The fields of one request. Not changed once it is made, so it stands for every request with the same lines. */
export class RequestFields extends FieldReader {
  /** Lines that the replica gets, each with its line end; without framing, tokens and what the proxy adds. */
  readonly passed: string;
  /** The caller's own, for apps without authentication. */
  authorizationLines = "";
  authorization: string | undefined = undefined;
  /** What is left of those that held cookies of the platform. */
  cookieLines = "";
  host: string | undefined = undefined;
  /** Bytes; -1: no such field. */
  contentLength = -1;
  isChunked = false;
  expectsContinue = false;
  /** The client reads trailers of the answer. */
  takesTrailers = false;
  /** It is the last one on its connection. */
  closes = false;
  /** It asks for something that concerns the connection or how bodies end. */
  isSpecial = false;
  /** What came from proxies before this one. */
  forwardedFor: string | undefined = undefined;
  forwardedProto: string | undefined = undefined;
  forwardedHost: string | undefined = undefined;
  /** Why it cannot be passed on. */
  refused: string | null = null;
  #sentFor: LineContext | null = null;
  #sent = "";

  /** Lines of the form `fieldLinesForm`, one character for each byte, or a list as node's parser gives it. */
  constructor(given: string | readonly string[]) {
    super();
    this.passed = typeof given === "string" ? this.read(given, 0) : this.readList(given);
  }

  /** All lines for the replica but framing and the call's id; remembered for the next call of the same context. */
  linesFor(context: LineContext): string {
    const known = this.#sentFor;
    const { address, isOpen, trusts } = context;
    if (known !== null && known.address === address && known.isOpen === isOpen && known.trusts === trusts) {
      return this.#sent;
    }
    // Clients of HTTP/1.0 need not send one, HTTP/1.1 demands it.
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
        return true;
      case "cookie":
        return this.#takeCookie(value);
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

  /** The platform's own cookies are none of an app's business. */
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
    if (!/^[0-9]{1,15}$/.test(value)) this.refused = "The field Content-Length is not a number of bytes.";
    this.contentLength = Number(value);
  }

  #takeRare(kind: FieldKind, value: string): void {
    switch (kind) {
      case "transfer-encoding":
        if (this.isChunked || value.toLowerCase() !== "chunked") {
          this.refused = "The only transfer coding that is understood is chunked.";
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
        this.forwardedFor = this.forwardedFor === undefined ? value : `${this.forwardedFor}, ${value}`;
        break;
      case "forwarded-proto":
        this.forwardedProto ??= value;
        break;
      case "forwarded-host":
        this.forwardedHost ??= value;
        break;
      default:
    }
  }
}

/** What the lines for a replica depend on besides the request's own. */
export type LineContext = {
  /** Of the client. */
  readonly address: string;
  /** The app takes every call, so that the callers' tokens are its own affair. */
  readonly isOpen: boolean;
  /** What proxies before this one say about the client is believed and passed on. */
  readonly trusts: boolean;
};

/**
 * The lines that tell the app about its client (de facto standard; the newer `Forwarded` is not passed on), and the
 * caller's own token for an open app.
 */
export function addedLines(fields: RequestFields, { address, isOpen, trusts }: LineContext): string {
  const before = trusts ? fields.forwardedFor : undefined;
  const proto = (trusts ? fields.forwardedProto : undefined) ?? "http";
  const host = (trusts ? fields.forwardedHost : undefined) ?? fields.host;
  const chain = before === undefined ? address : `${before}, ${address}`;
  const hostLine = host === undefined ? "" : `X-Forwarded-Host: ${host}\r\n`;
  const tokens = isOpen ? fields.authorizationLines : "";
  return `${tokens}X-Forwarded-For: ${chain}\r\nX-Forwarded-Proto: ${proto}\r\n${hostLine}`;
}
