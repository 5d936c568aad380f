// Hands a request that came as a stream of HTTP/2 to the HTTP/1.1 server of this process, over a
// connection in memory. The management API and the pages are served this way, so that their code
// has to handle only HTTP/1.1. Calls of apps, which are many, do not go this way.
import { request as sendRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import { duplexPair, type Duplex } from "node:stream";
import { http2Fields } from "./http2-fields.ts";
import type { Http2Head } from "./http2-head.ts";

/** The connection on which a stream came. */
export type BridgedConnection = {
  readonly remoteAddress?: string | undefined;
  readonly bytesRead: number;
};

export type BridgeParts = {
  readonly connection: BridgedConnection;
  /** Reads HTTP/1.1 from a connection, and answers it. */
  readonly serve: (connection: Duplex) => void;
};

/** Passes on the request and its answer, until one of both sides ends. */
export function bridge(
  stream: ServerHttp2Stream,
  { method, url, fields }: Http2Head,
  { connection, serve }: BridgeParts,
): void {
  const [near, far] = duplexPair();
  // The server reads these properties of its connections, which a stream in memory lacks.
  Object.defineProperties(far, {
    remoteAddress: { value: connection.remoteAddress },
    encrypted: { value: true },
    bytesRead: { get: () => connection.bytesRead },
  });
  serve(far);
  const hasBody = !stream.endAfterHeaders;
  const request = sendRequest({
    createConnection: () => near,
    method,
    path: url,
    headers: bridgedFields(fields, hasBody),
    setDefaultHeaders: false,
    setHost: false,
  });
  const end = (): void => {
    request.destroy();
    near.destroy();
    far.destroy();
  };
  // An error needs no handling: each side learns of it by the end of the other.
  for (const side of [near, far, request]) side.on("error", () => undefined);
  request.on("close", () => {
    // The server has closed the connection without an answer.
    if (!stream.headersSent) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  });
  stream.on("close", end);
  stream.on("aborted", end);
  request.on("information", ({ statusCode, rawHeaders }) => {
    if (!stream.headersSent && !stream.closed)
      stream.additionalHeaders({ ...http2Fields(rawHeaders), ":status": statusCode });
  });
  request.on("response", (response) => answer(stream, { method, request, response }));
  if (hasBody) stream.pipe(request);
  else request.end();
}

/**
 * The fields for the HTTP/1.1 server. A body without a length is sent in chunks. The announcement
 * of trailers (`trailer`) is left out: trailers are not passed on, and Node throws for a request
 * that announces them but has no body in chunks.
 */
function bridgedFields(fields: readonly string[], hasBody: boolean): string[] {
  const list: string[] = [];
  let hasLength = false;
  for (let index = 0; index + 1 < fields.length; index += 2) {
    const name = fields[index] ?? "";
    if (name === "trailer") continue;
    hasLength ||= name === "content-length";
    list.push(name, fields[index + 1] ?? "");
  }
  // Each request has a connection of its own.
  list.push("connection", "close");
  if (hasBody && !hasLength) list.push("transfer-encoding", "chunked");
  return list;
}

type Answered = {
  readonly method: string;
  readonly request: ClientRequest;
  readonly response: IncomingMessage;
};

function answer(stream: ServerHttp2Stream, { method, request, response }: Answered): void {
  if (stream.closed || stream.destroyed) {
    request.destroy();
    return;
  }
  // The default only satisfies the type: a response always has a status.
  const { statusCode = 500, rawHeaders } = response;
  const hasNoBody = method === "HEAD" || statusCode === 204 || statusCode === 304;
  stream.respond({ ...http2Fields(rawHeaders), ":status": statusCode }, { endStream: hasNoBody });
  // An answer that breaks off must not look complete.
  response.on("error", () => undefined);
  response.on("close", () => {
    if (!response.complete) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  });
  response.pipe(stream);
  response.on("end", () => {
    // See `Http2Client`: the client need not send the rest of its body.
    stream.once("finish", () => {
      if (!stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
    });
  });
}
