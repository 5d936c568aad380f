// Whom a call's answer goes to, and who sends its body. Two kinds have sent a request over a connection: node's HTTP
// server has read it, or it is a plain one that is read and answered on the socket itself, which costs about half. The
// others stand before such a client (its answer is forwarded too) or in place of one (a run's answer is kept).
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Peer } from "#lib/trusted-proxies.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { BodyUser, RequestBody } from "./request-body.ts";

/** The call that is told of its client. */
export interface ClientUser {
  /** The connection is gone. */
  onClientGone(): void;
  /** What was written has left; more may be written. */
  onClientDrain(): void;
}

/** What an answer's head says besides. */
export type HeadGiven = {
  readonly sendsTrailers: boolean;
  /** See site.ts. */
  readonly isSandboxed: boolean;
  /** Values of `Set-Cookie`, see cookies.ts. */
  readonly cookies: readonly string[];
};

/** One call's client. After `end`, `refuse`, a last piece or `destroy` nothing is written any more. */
export interface Client {
  /** Tells `user` of the connection until the answer is complete. */
  use(user: ClientUser): void;
  /** Sends the call's head, which lacks the empty line only, and its body. Null: all is written; else what is on its way. */
  send(connection: ReplicaConnection, head: string, user: BodyUser): RequestBody | null;
  /** An answer before the answer. Status 100: the body may be sent. */
  information(head: AnswerHead): void;
  /** Begins the answer; nothing need leave before the first piece. */
  head(head: AnswerHead, runId: RunId, given: HeadGiven): void;
  /** False: wait for `onClientDrain` before writing more. */
  piece(piece: Piece, isLast: boolean): boolean;
  /** Lets the head leave. */
  flush(): void;
  end(trailers: readonly string[]): void;
  /** Answers with a fault; what was begun is cut off. */
  refuse(fault: Fault, runId: RunId, nowMs: number): void;
  /** Closes the connection, so that an answer that has begun is visibly not whole. `fault`: why it is not. */
  destroy(fault: Fault): void;
}

/** A client that has sent its call over a connection. */
export interface HttpClient extends Client {
  readonly method: string;
  readonly peer: Peer;
  /** The connection is gone already. */
  readonly isGone: boolean;
  /** Reads the whole body instead of sending it, once. A fault when it is longer than `bytesMax`, breaks off, or comes too slowly. */
  readBody(bytesMax: number, nowMs: number): Promise<Buffer | Fault>;
  /** Answers that the call runs later, as this run. */
  accept(runId: RunId): void;
}
