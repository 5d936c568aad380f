// Refuses input that the platform does not accept as HTTP: bytes that Node's parser rejects,
// unsupported versions, framing that an old version does not have. A request gets at most one
// answer, and earlier requests get their answers first.
import { METHODS, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { newRunId } from "#lib/ids.ts";
import { fieldList, tokenForm } from "./fields.ts";
import type { OwnAnswer } from "./refusal.ts";

/** An error of Node's parser, with the bytes where it occurred. */
export type ParseError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

/** A refusal: the status with its reason phrase, and further field lines. */
export type Refusal = {
  /** The code and the reason phrase. */
  readonly status: string;
  readonly message: string;
  /** Further field lines, each with its line end. */
  readonly fields?: string;
};

/** The limit of a head. Tokens have about 700 characters; cookies of apps on one host add up. */
export const headBytesMax = 32_768;
/** The limit of a head without its cookies; browsers send about 1,000 bytes. */
const cookielessBytesMax = 8_192;
/** How much of the input is searched for a method. */
const firstLineBytesMax = 512;
/** A request line with a well-formed method, known or not. */
const methodForm = new RegExp(`^(${tokenForm}) [\\x21-\\x7e]+ HTTP/1\\.[01]\r?\n`);

/** The refusal that RFC 9112, 3.2 requires. */
export const noHost: Refusal = {
  status: "400 Bad Request",
  message: "The request has no Host header: send the name of the platform in one.",
};

/** Why a request that Node has parsed is not served; null: it is served. */
export function unfitness(request: IncomingMessage): Refusal | null {
  const { httpVersion } = request;
  if (httpVersion === "1.1") return request.headers.host === undefined ? noHost : null;
  if (httpVersion !== "1.0") {
    const message = `HTTP/${httpVersion} is not supported: send the request as HTTP/1.1.`;
    return { status: "505 HTTP Version Not Supported", message };
  }
  // The sender, or a proxy on the way, may see a different end of the body (RFC 9112, 6.1).
  if (request.headers["transfer-encoding"] === undefined) return null;
  return {
    status: "400 Bad Request",
    message: "HTTP/1.0 does not support Transfer-Encoding: send a Content-Length.",
  };
}

/**
 * An unsupported expectation (RFC 9110, 10.1.1). Node would answer it itself and then read the body
 * without a limit.
 */
export const unmetExpectation: Refusal = {
  status: "417 Expectation Failed",
  message:
    "The only expectation that is supported is 100-continue: send the request without the header Expect.",
};

/** The open answers of each connection that Node's server reads. */
export class OpenAnswers {
  /** By connection: the latest request's answer, and the previous answer if it was still open. */
  readonly #last = new WeakMap<
    Duplex,
    { readonly response: ServerResponse; readonly previous: ServerResponse | null }
  >();
  /** The connections that already have their refusal. */
  readonly #refused = new WeakSet<Duplex>();

  /** Adds the answer of a request. Call it for each request of Node's server. */
  add(response: ServerResponse): void {
    const { socket } = response.req;
    const latest = this.#last.get(socket)?.response ?? null;
    const previous = latest === null || isOver(latest) ? null : latest;
    this.#last.set(socket, { response, previous });
  }

  /** True while a request on the connection has no complete answer. */
  isOpen(socket: Duplex): boolean {
    const response = this.#last.get(socket)?.response;
    return response !== undefined && !isOver(response);
  }

  /** Makes the latest answer say that it is the last on its connection, unless it has begun. */
  makeLast(socket: Duplex): void {
    const response = this.#last.get(socket)?.response;
    if (response?.headersSent === false) response.shouldKeepAlive = false;
  }

  /**
   * Answers bytes that the parser rejected and closes the connection. The socket may be in any
   * state.
   */
  refuse(error: ParseError, socket: Duplex): void {
    const { response = null, previous = null } = this.#last.get(socket) ?? {};
    if (error.code === "ECONNRESET") {
      socket.destroy();
      return;
    }
    // The client has said that a request is its last. It gets the answer to that request, and the
    // bytes that follow are ignored.
    if (error.code === "HPE_CLOSED_CONNECTION") return;
    if (socket.destroyed || this.#refused.has(socket)) return;
    this.#refused.add(socket);
    // If the rejected bytes are within the body of the latest request, the refusal is the answer to
    // that request, and has to wait only for the answer to the request before.
    const isInBody = response !== null && !response.req.complete;
    const openAnswer = isInBody ? previous : response;
    const refuse = (): void => {
      // An answer that has begun cannot become a refusal.
      const hasBegun = isInBody && response.headersSent;
      if (!socket.writable || hasBegun) close(socket);
      else close(socket, bytesOf(refusalOf(error)));
    };
    if (openAnswer === null || isOver(openAnswer)) refuse();
    else openAnswer.once("close", refuse);
  }
}

const slowBodyCode = "SLIPWAY_SLOW_BODY";

/** The error for a body of which neither the end nor another MiB arrives within `bodyMs`. */
export function slowBody(bodyMs: number): ParseError {
  const message = `The body of the request took too long: all of it, or a MiB more of it, must arrive within ${bodyMs / 1000} s.`;
  return Object.assign(new Error(message), { code: slowBodyCode });
}

const tunnelCode = "SLIPWAY_TUNNEL";

/** The error for a request for a tunnel, whose connection Node would close without an answer. */
export function tunnel(): ParseError {
  return Object.assign(new Error("CONNECT is not supported."), { code: tunnelCode });
}

/** The refusal as an answer. */
export function answerTo({ status, message, fields = "" }: Refusal): OwnAnswer {
  const body = Buffer.from(JSON.stringify({ message }));
  const ownFields = [
    ["Content-Type", "application/json"],
    ["Content-Length", String(body.length)],
    ["X-Request-Id", newRunId()],
  ];
  return {
    status: Number(status.slice(0, 3)),
    fields: [...ownFields.flat(), ...fieldList(fields)],
    body,
  };
}

/** Answers a request that is not served, then closes the connection. */
export function refuseUnfit(response: ServerResponse, refusal: Refusal): void {
  const { status, fields, body } = answerTo(refusal);
  response.writeHead(status, [...fields, "Connection", "close"]);
  response.end(body);
}

function isOver(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed;
}

/** Closes the connection once `answer`, and all that was written before it, is sent. */
function close(socket: Duplex, answer?: string): void {
  if (socket.writableFinished) {
    socket.destroy();
    return;
  }
  socket.once("finish", () => socket.destroy());
  socket.end(answer);
}

/** The refusal as the text of an answer, which is the last on its connection. */
function bytesOf({ status, message, fields = "" }: Refusal): string {
  const body = JSON.stringify({ message });
  const fieldLines = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nX-Request-Id: ${newRunId()}`;
  return `HTTP/1.1 ${status}\r\n${fieldLines}\r\n${fields}Connection: close\r\n\r\n${body}`;
}

function refusalOf({ code, rawPacket, message }: ParseError): Refusal {
  if (code === "HPE_HEADER_OVERFLOW") return tooLong(rawPacket?.toString("latin1") ?? "");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") {
    return { status: "408 Request Timeout", message: "The head of the request took too long." };
  }
  if (code === slowBodyCode) return { status: "408 Request Timeout", message };
  if (code === tunnelCode) return notAllowed("CONNECT");
  if (code === "HPE_INVALID_VERSION") {
    return { status: "505 HTTP Version Not Supported", message: "The request is not HTTP/1.1." };
  }
  if (code === "HPE_INVALID_METHOD") {
    const start = rawPacket?.toString("latin1", 0, firstLineBytesMax) ?? "";
    const method = methodForm.exec(start)?.[1];
    // The bytes may begin with an earlier, valid request, whose method is known.
    if (method !== undefined && !METHODS.includes(method)) return notAllowed(method);
  }
  return { status: "400 Bad Request", message: "The request is not HTTP/1.1." };
}

/** The refusal of a method that nobody here may use. */
export function notAllowed(method: string): Refusal {
  const allowed = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS";
  const message = `The method ${method} is not allowed. Methods are written in capitals: ${allowed}.`;
  return { status: "405 Method Not Allowed", message, fields: `Allow: ${allowed}\r\n` };
}

/** The refusal of a head that is too long. `head`: its text, in the form of HTTP/1.1. */
export function tooLong(head: string): Refusal {
  const status = "431 Request Header Fields Too Large";
  const max = `The head of the request is longer than ${headBytesMax} bytes`;
  if (!isFullOfCookies(head)) return { status, message: `${max}.` };
  const message = `${max}, and most of it is cookies. The browser was told to delete the cookies of this host: reload the page. If that fails too, delete them manually.`;
  return { status, message, fields: 'Clear-Site-Data: "cookies"\r\n' };
}

/**
 * True if a browser cannot open a page of the platform because it sends too many cookies. On an
 * app's page the cookies belong to the app. A long address, which any link may contain, must not
 * clear the cookies.
 */
function isFullOfCookies(head: string): boolean {
  const isForPlatform = /^GET \/(?!v4\/)\S* HTTP\/1\.1\r\n/.test(head);
  const opensPage = /\r\nsec-fetch-mode:[ \t]*navigate\r\n/i.test(head);
  if (!isForPlatform || !opensPage) return false;
  const withoutCookies = head.replaceAll(/\r\ncookie:[^\r]*/gi, "");
  return withoutCookies.length <= cookielessBytesMax;
}
