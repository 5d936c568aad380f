// What a call needs of whoever made it: where its answer goes. There are two kinds: requests that node's HTTP server has
// read, and plain ones that are read and answered on the socket itself, which costs about half.
import type { IncomingMessage } from "node:http";
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Peer } from "#lib/trusted-proxies.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";

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
  readonly method: string;
  /** The request as node has read it, with a body that is still to be read; null: `body` is all of it. */
  readonly request: IncomingMessage | null;
  /** A body that came whole with its head, one character for each byte. */
  readonly body: string;
  /** Tells `user` of the connection until the answer is complete. */
  use(user: ClientUser): void;
  information(head: AnswerHead): void;
  /** Gives leave to send the body. */
  giveLeave(): void;
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
  readonly peer: Peer;
  /** The connection is gone already. */
  readonly isGone: boolean;
}
