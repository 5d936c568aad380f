// Serves HTTP/2 on the encrypted connections whose client asks for it. Each stream is one request:
// calls of apps go to the proxy, all other requests to the HTTP/1.1 server of this process. Limits
// keep strangers from holding connections, streams or memory.
import {
  constants,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { newRunId } from "#lib/ids.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import { stopping } from "./call-faults.ts";
import type { HttpClient } from "./client.ts";
import { Timed, type Deadlines } from "./deadlines.ts";
import { bridge } from "./http2-bridge.ts";
import { Http2Client } from "./http2-client.ts";
import { readHttp2Head } from "./http2-head.ts";
import { answerTo, headBytesMax } from "./malformed.ts";
import { RequestFields } from "./request-fields.ts";
import { originForm } from "./target.ts";

/** A call whose head has been read. */
export type ReadCall = { readonly url: string; readonly fields: RequestFields };

export type Http2Parts = {
  /** Whether the request is a call of an app. */
  readonly isCall: (url: string, host: string) => boolean;
  /** Handles each call of an app. */
  readonly handle: (client: HttpClient, call: ReadCall) => void;
  /** Reads HTTP/1.1 from a connection, and answers it. */
  readonly serveHttp1: (connection: Duplex) => void;
  /** Whether requests of the connection are refused because the platform stops. */
  readonly refuses: (connection: Duplex) => boolean;
  readonly trustedProxies: TrustedProxies;
  readonly deadlines: Deadlines;
  readonly monotonicMs: () => number;
  /** How long a new connection may be without a request. */
  readonly firstMs: number;
  /** How long a connection may be without a request after that. */
  readonly idleMs: number;
  /** How long a client may read nothing of an answer. */
  readonly stalledMs: number;
};

/** How many requests of one connection are in progress at most; as by default in Envoy. */
const streamsMax = 100;
/**
 * How much of a body a client may send before it is read. This bounds the memory of a request that
 * waits, to as much as with HTTP/1.1, and the speed of an upload, to one window for each round
 * trip.
 */
const streamWindowBytes = 65_536;
/** How much all requests of one connection together may send before it is read. */
const connectionWindowBytes = 1_048_576;
/**
 * A longer head ends its stream without an answer. A shorter one that is longer than `headBytesMax`
 * gets a refusal as its answer. The library counts 32 bytes more for each field.
 */
const listBytesMax = 2 * headBytesMax;
/** More fields than this cannot be within `listBytesMax`. */
const listPairsMax = listBytesMax / 32;
/** The memory of one connection for what is neither read nor sent yet, in MB. */
const sessionMegabytesMax = 10;

const sessionOptions = {
  maxHeaderListPairs: listPairsMax,
  maxSessionMemory: sessionMegabytesMax,
  settings: {
    maxConcurrentStreams: streamsMax,
    initialWindowSize: streamWindowBytes,
    maxHeaderListSize: listBytesMax,
    enablePush: false,
  },
};

/** The HTTP/2 connections of one listener. */
export class Http2Connections {
  readonly #parts: Http2Parts;
  readonly #open = new Set<Http2Connection>();

  constructor(parts: Http2Parts) {
    this.#parts = parts;
  }

  /** Serves HTTP/2 on the connection, whose handshake has agreed on it. */
  take(socket: TLSSocket): void {
    const connection = new Http2Connection(socket, this.#parts);
    this.#open.add(connection);
    socket.once("close", () => this.#open.delete(connection));
  }

  /**
   * Begins to end all connections: their requests in progress are answered, and clients must send
   * further requests over new connections.
   */
  drain(): void {
    for (const connection of this.#open) connection.drain();
  }
}

/** One connection. It closes when it has been without a request for too long. */
class Http2Connection extends Timed {
  readonly #socket: TLSSocket;
  readonly #parts: Http2Parts;
  readonly #session: ServerHttp2Session;
  /** How many requests are in progress. */
  #openStreams = 0;
  /** How many requests there have been. */
  #streams = 0;
  /** The number of streams at the last deadline. */
  #streamsAtDeadline = 0;

  constructor(socket: TLSSocket, parts: Http2Parts) {
    super();
    this.#socket = socket;
    this.#parts = parts;
    // An error needs no handling: the end of the connection ends its streams.
    socket.on("error", () => undefined);
    const session = performServerHandshake(socket, sessionOptions);
    this.#session = session;
    session.on("error", () => undefined);
    session.setLocalWindowSize(connectionWindowBytes);
    session.on("stream", (stream, headers, _flags, list) =>
      this.#serve(stream, headers[":method"] ?? "", list),
    );
    parts.deadlines.set(this, parts.monotonicMs() + parts.firstMs);
    socket.once("close", () => parts.deadlines.clear(this));
  }

  drain(): void {
    this.#session.close();
  }

  override onDeadline(nowMs: number): void {
    const isIdle = this.#openStreams === 0 && this.#streams === this.#streamsAtDeadline;
    this.#streamsAtDeadline = this.#streams;
    // A client that does not close its side would hold the connection.
    if (isIdle && this.#session.closed) this.#socket.destroy();
    else if (isIdle) this.#session.close();
    this.#parts.deadlines.set(this, nowMs + this.#parts.idleMs);
  }

  #serve(stream: ServerHttp2Stream, method: string, list: readonly string[]): void {
    const { deadlines, handle, isCall, refuses, serveHttp1, trustedProxies } = this.#parts;
    this.#watch(stream);
    const head = readHttp2Head(list);
    // A head with a `message` is a refusal, which has no fields of the request.
    const fields = new RequestFields("message" in head ? [] : head.fields);
    // A replica gets a body without a length in chunks.
    if (!stream.endAfterHeaders && fields.contentLength === -1) fields.isChunked = true;
    const peer = trustedProxies.peerOf(this.#socket);
    const client = new Http2Client(stream, { method, peer, fields, deadlines });
    if (refuses(this.#socket)) {
      client.refuse(stopping(), newRunId());
      this.#session.close();
    } else if ("message" in head) {
      client.answer(answerTo(head));
    } else if (isCall(head.url, head.host)) {
      handle(client, { url: originForm(head.url), fields });
    } else {
      bridge(stream, head, { connection: this.#socket, serve: serveHttp1 });
    }
  }

  #watch(stream: ServerHttp2Stream): void {
    this.#streams++;
    this.#openStreams++;
    stream.once("close", () => {
      this.#openStreams--;
    });
    // The events `aborted` and `close` tell of every error.
    stream.on("error", () => undefined);
    // Whenever bytes leave, this timeout begins again.
    stream.setTimeout(this.#parts.stalledMs, () => {
      if (stream.writableLength > 0) stream.close(constants.NGHTTP2_CANCEL);
    });
  }
}
