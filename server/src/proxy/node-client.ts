// The client of a call that Node's HTTP server has parsed.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Peer } from "#lib/trusted-proxies.ts";
import { addedTo, fieldsUnder, nothingAdded, type AddedFields } from "./added-fields.ts";
import { fieldList } from "./fields.ts";
import { answerFields, type AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { ClientUser, HeadGiven, HttpClient } from "./client.ts";
import type { Deadlines } from "./deadlines.ts";
import { sendRefusal, type OwnAnswer } from "./refusal.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import { sendBody, type BodyUser, type RequestBody } from "./request-body.ts";
import type { RequestFields } from "./request-fields.ts";
import { readWhole } from "./whole-body.ts";

export type NodeClientParts = {
  readonly peer: Peer;
  /** The header fields of the request. */
  readonly fields: RequestFields;
  readonly deadlines: Deadlines;
};

/** One request and its answer. */
export class NodeClient implements HttpClient {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #parts: NodeClientParts;
  added: AddedFields = nothingAdded;

  constructor(request: IncomingMessage, response: ServerResponse, parts: NodeClientParts) {
    this.#request = request;
    this.#response = response;
    this.#parts = parts;
  }

  get method(): string {
    return this.#request.method ?? "GET";
  }

  get peer(): Peer {
    return this.#parts.peer;
  }

  get isGone(): boolean {
    return this.#response.destroyed;
  }

  use(user: ClientUser): void {
    const response = this.#response;
    response.on("close", () => user.onClientGone());
    response.on("drain", () => user.onClientDrain());
    // An answer that must wait for an earlier one on its connection has no socket yet, and gets no
    // event when the connection ends.
    if (response.socket === null) this.#request.socket.once("close", () => user.onClientGone());
  }

  send(connection: ReplicaConnection, head: string, user: BodyUser): RequestBody | null {
    const request = this.#request;
    const { fields } = this.#parts;
    return sendBody(head, {
      request,
      trailers: () => request.rawTrailers,
      connection,
      fields,
      user,
    });
  }

  readBody(bytesMax: number, nowMs: number): Promise<Buffer | Fault> {
    const { fields, deadlines } = this.#parts;
    if (fields.expectsContinue && !this.isGone) this.#response.writeContinue();
    const expectedBytes = Math.max(0, fields.contentLength);
    return readWhole({ request: this.#request, bytesMax, expectedBytes, deadlines }, nowMs);
  }

  information(head: AnswerHead): void {
    if (this.isGone) return;
    if (head.status === 100) {
      this.#response.writeContinue();
      return;
    }
    // Clients of HTTP/1.0 know no informational answers.
    if (this.#request.httpVersionMinor > 0)
      this.#response.writeInformation(head.status, fieldList(head.lines));
  }

  head(head: AnswerHead, runId: RunId, { sendsTrailers, cookies, location }: HeadGiven): void {
    const response = this.#response;
    const added = addedTo(head, this.added);
    const fields = fieldsUnder(answerFields(head), added);
    fields.push("X-Request-Id", runId, ...added.list);
    for (const cookie of cookies) fields.push("Set-Cookie", cookie);
    if (location !== null) fields.push("Location", location);
    // Only a chunked answer has trailers, and clients of HTTP/1.0 get none.
    if (sendsTrailers && head.trailer !== null && response.useChunkedEncodingByDefault)
      fields.push("Trailer", head.trailer);
    response.writeHead(head.status, head.reason, fields);
  }

  piece(piece: Piece, isLast: boolean): boolean {
    if (!isLast) return this.#response.write(piece, "latin1");
    this.#response.end(piece, "latin1");
    return true;
  }

  flush(): void {
    this.#response.flushHeaders();
  }

  end(trailers: readonly string[]): void {
    if (trailers.length > 0 && this.#response.chunkedEncoding)
      this.#response.addTrailers(pairs(trailers));
    this.#response.end();
  }

  refuse(fault: Fault, runId: RunId, nowMs: number): void {
    sendRefusal(this.#response, fault, runId, {
      deadlines: this.#parts.deadlines,
      nowMs,
      added: this.added,
    });
  }

  answer({ status, fields, body }: OwnAnswer): void {
    this.#response.writeHead(status, [...fields, ...this.added.list]);
    this.#response.end(body);
  }

  destroy(): void {
    this.#response.destroy();
  }
}

/** Converts trailers to the format in which Node takes them. */
function pairs(trailers: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let index = 0; index + 1 < trailers.length; index += 2) {
    list.push([trailers[index] ?? "", trailers[index + 1] ?? ""]);
  }
  return list;
}
