// The client of a call that node's HTTP server has read.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Peer } from "#lib/trusted-proxies.ts";
import { fieldList } from "./fields.ts";
import { answerFields, type AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { ClientUser, HeadGiven, HttpClient } from "./client.ts";
import type { Deadlines } from "./deadlines.ts";
import { sendRefusal } from "./refusal.ts";
import { pagePolicy } from "./site.ts";

/** One request and its answer. */
export class NodeClient implements HttpClient {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly peer: Peer;
  readonly body = "";
  readonly #deadlines: Deadlines;

  constructor(request: IncomingMessage, response: ServerResponse, peer: Peer, deadlines: Deadlines) {
    this.request = request;
    this.response = response;
    this.peer = peer;
    this.#deadlines = deadlines;
  }

  get method(): string {
    return this.request.method ?? "GET";
  }

  get isGone(): boolean {
    return this.response.destroyed;
  }

  use(user: ClientUser): void {
    const { response, request } = this;
    response.on("close", () => user.onClientGone());
    response.on("drain", () => user.onClientDrain());
    // One of several calls that were sent at once: its answer is not told of the end of the connection.
    if (response.socket === null) request.socket.once("close", () => user.onClientGone());
  }

  information(head: AnswerHead): void {
    if (this.request.httpVersionMinor === 0 || this.response.destroyed) return;
    this.response.writeInformation(head.status, fieldList(head.lines));
  }

  giveLeave(): void {
    if (!this.response.destroyed) this.response.writeContinue();
  }

  head(head: AnswerHead, runId: RunId, { sendsTrailers, isSandboxed, cookies }: HeadGiven): void {
    const { response } = this;
    const fields = answerFields(head);
    fields.push("X-Request-Id", runId);
    for (const cookie of cookies) fields.push("Set-Cookie", cookie);
    if (isSandboxed) fields.push("Content-Security-Policy", pagePolicy);
    if (sendsTrailers && head.trailer !== null && response.useChunkedEncodingByDefault)
      fields.push("Trailer", head.trailer);
    response.writeHead(head.status, head.reason, fields);
  }

  piece(piece: Piece, isLast: boolean): boolean {
    if (!isLast) return this.response.write(piece, "latin1");
    this.response.end(piece, "latin1");
    return true;
  }

  flush(): void {
    this.response.flushHeaders();
  }

  end(trailers: readonly string[]): void {
    if (trailers.length > 0 && this.response.chunkedEncoding) this.response.addTrailers(pairs(trailers));
    this.response.end();
  }

  refuse(fault: Fault, runId: RunId, nowMs: number): void {
    sendRefusal(this.response, fault, runId, { deadlines: this.#deadlines, nowMs });
  }

  destroy(): void {
    this.response.destroy();
  }
}

/** As node wants trailers. */
function pairs(trailers: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let index = 0; index + 1 < trailers.length; index += 2) {
    list.push([trailers[index] ?? "", trailers[index + 1] ?? ""]);
  }
  return list;
}
