// The client of a call: sends the body and receives the answer. Two kinds of clients have a
// connection: one whose requests Node's HTTP server parses, and a plain one whose requests are
// parsed and answered on the socket itself, which costs about half. Other clients wrap one of these
// (to forward its answer too) or replace it (to keep a run's answer).
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Peer } from "#lib/trusted-proxies.ts";
import type { AddedFields } from "./added-fields.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { OwnAnswer } from "./refusal.ts";
import type { BodyUser, RequestBody } from "./request-body.ts";

/** The call that receives its client's events. */
export interface ClientUser {
  /** Called when the connection is closed. */
  onClientGone(): void;
  /** Called when the write buffer has drained; more may be written. */
  onClientDrain(): void;
}

/** Additions to an answer's head. */
export type HeadGiven = {
  /** The replica may send trailers, and the client accepts them. */
  readonly sendsTrailers: boolean;
  /** Values of `Set-Cookie`, see cookies.ts. */
  readonly cookies: readonly string[];
  /** The value of `Location`, see location.ts; null: none. */
  readonly location: string | null;
};

/** The client of one call. Writes nothing after `end`, `refuse`, a last piece or `destroy`. */
export interface Client {
  /** Reports events of the connection to `user` until the answer is complete. */
  use(user: ClientUser): void;
  /**
   * Sends the call's head and its body. `head` lacks only a line for `Expect` and the empty line.
   * Returns the body that is being sent; null: everything is written, or there is no body.
   */
  send(connection: ReplicaConnection, head: string, user: BodyUser): RequestBody | null;
  /** Passes on an informational answer. Status 100: the body may be sent. */
  information(head: AnswerHead): void;
  /** Begins the answer; it may be buffered until the first piece. */
  head(head: AnswerHead, runId: RunId, addition: HeadGiven): void;
  /**
   * Sends a piece of the body. False: wait for `onClientDrain` before writing more. `isLast`: the
   * answer ends with it, and `end` is not called.
   */
  piece(piece: Piece, isLast: boolean): boolean;
  /** Sends the head, if it is still buffered. */
  flush(): void;
  /** Ends the answer. `trailers`: name, value, … */
  end(trailers: readonly string[]): void;
  /** Answers with a fault; cuts off an answer that has begun. */
  refuse(fault: Fault, runId: RunId, nowMs: number): void;
  /** Closes the connection, so that a begun answer is visibly incomplete. `fault`: the reason. */
  destroy(fault: Fault): void;
}

/** A client that sent its call over a connection. */
export interface HttpClient extends Client {
  readonly method: string;
  /** The other end of the connection. */
  readonly peer: Peer;
  /** The fields of every answer, even a refusal. Set as soon as it is known which app is called. */
  added: AddedFields;
  /** The connection is already closed. */
  readonly isGone: boolean;
  /**
   * Reads the whole body instead of sending it; call it once. A fault when the body exceeds
   * `bytesMax`, breaks off or arrives too slowly.
   */
  readBody(bytesMax: number, nowMs: number): Promise<Buffer | Fault>;
  /** Answers without the app. The whole request must have been read. */
  answer(answer: OwnAnswer): void;
}
