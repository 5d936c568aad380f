// One connection to a replica: a plain socket, a strict parser, one call at a time. Used by the pool; whoever takes it
// is told everything that happens to it, and nothing any more once it has given it back or destroyed it.
import { connect, type Socket } from "node:net";
import { isTaken, type ReadyReplica } from "#scheduler/replica-view.ts";
import { AnswerParser, type AnswerSink } from "./answer-parser.ts";
import type { Asked } from "./answer-head.ts";
import { Timed, type Deadlines } from "./deadlines.ts";

/** How a connection was lost. */
export type Loss = {
  /** `unreachable`: it was never made, so the replica has seen nothing. */
  readonly kind: "unreachable" | "closed" | "malformed";
  /** For the log and the caller. */
  readonly reason: string;
  /** Bytes of an answer to this call had come. */
  readonly hasAnswered: boolean;
};

/** The call that uses a connection. */
export interface ConnectionUser extends AnswerSink {
  /** A new connection is made; now it may be written to. */
  onConnected(): void;
  /** What was written has left; more may be written. */
  onDrain(): void;
  /** All bytes that have come so far are handed on. */
  onRead(): void;
  /** The platform itself failed to hand on what came; the connection is gone. */
  onBroken(error: unknown): void;
  /** It is gone. */
  onLost(loss: Loss): void;
}

export type ConnectionOptions = {
  readonly address: ReadyReplica["address"];
  readonly deadlines: Deadlines;
  /** One for all connections: bytes are handed on before the next read. */
  readonly readBuffer: Buffer;
  readonly nowMs: number;
  /** Told once when it is gone while nobody uses it. */
  readonly onIdleEnd: (connection: ReplicaConnection) => void;
};

/** On loopback and in one network a connection is made at once or never. */
const connectMs = 5_000;
const keepAliveProbeMs = 30_000;

/** Connects at once; belongs to one call at a time from `use` to `leave` or `destroy`. */
export class ReplicaConnection extends Timed {
  /** It served another call before. */
  isReused = false;
  isConnecting = true;
  readonly #socket: Socket;
  readonly #parser = new AnswerParser();
  readonly #address: ReadyReplica["address"];
  readonly #deadlines: Deadlines;
  readonly #onIdleEnd: (connection: ReplicaConnection) => void;
  #user: ConnectionUser | null = null;
  #hasAnswered = false;
  #isPaused = false;
  #isOver = false;

  constructor(options: ConnectionOptions) {
    super();
    const { address, deadlines, readBuffer, nowMs } = options;
    this.#address = address;
    this.#deadlines = deadlines;
    this.#onIdleEnd = options.onIdleEnd;
    const socket = connect({
      ...address,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveProbeMs,
      onread: { buffer: readBuffer, callback: (count, bytes) => this.#read(count, bytes as Buffer) },
    });
    this.#socket = socket;
    // The client's connection keeps the process alive while a call runs.
    socket.unref();
    socket.on("connect", () => this.#connected());
    socket.on("drain", () => this.#user?.onDrain());
    socket.on("end", () => this.#ended());
    socket.on("error", (error) => this.#lose("closed", connectionFault(error)));
    socket.on("close", () => this.#lose("closed", "the replica closed the connection"));
    deadlines.set(this, nowMs + connectMs);
  }

  /** True while it can serve another call. */
  get isUsable(): boolean {
    return !this.#isOver && this.#parser.problem === undefined && !this.#parser.isExpecting;
  }

  /** Gives it to a call; `user` is told from now on. */
  use(user: ConnectionUser, asked: Asked): void {
    this.#user = user;
    this.#hasAnswered = false;
    this.#parser.expect(asked, user);
  }

  /** Takes it away from its call; nobody is told any more but the pool. */
  leave(): void {
    this.#user = null;
    this.isReused = true;
    if (this.#isPaused) this.resume();
  }

  /** Sends bytes, or a text with one character for each byte. False: wait for `onDrain` before sending more. */
  write(piece: string | Buffer): boolean {
    return this.#socket.write(piece, "latin1");
  }

  /** Reads nothing more until `resume`. Takes effect at the end of the bytes that are being handed on. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  /** Closes it at once; the user is not told. */
  destroy(): void {
    this.#isOver = true;
    this.#user = null;
    this.#deadlines.clear(this);
    this.#socket.destroy();
  }

  /** Not connected in time, or idle for long enough. */
  override onDeadline(): void {
    if (this.isConnecting) this.#lose("unreachable", `no connection within ${connectMs} ms`);
    else this.#endIdle();
  }

  #connected(): void {
    if (this.#isOver) return;
    if (isTaken(this.#address)) return this.#lose("unreachable", takenReason);
    this.isConnecting = false;
    this.#deadlines.clear(this);
    this.#user?.onConnected();
  }

  /** Node hands on bytes in the shared buffer; false pauses the socket. */
  #read(count: number, bytes: Buffer): boolean {
    if (this.#isOver) return true;
    this.#hasAnswered = true;
    try {
      this.#parser.push(bytes, count);
      const { problem } = this.#parser;
      if (problem !== undefined) this.#lose("malformed", problem);
      else this.#user?.onRead();
    } catch (error) {
      const user = this.#user;
      this.destroy();
      user?.onBroken(error);
    }
    return !this.#isPaused;
  }

  #ended(): void {
    if (this.#isOver) return;
    if (this.#parser.finish()) this.#endIdle();
    else this.#lose("closed", "the replica closed the connection");
  }

  #lose(kind: Loss["kind"], reason: string): void {
    if (this.#isOver) return;
    const user = this.#user;
    if (user === null) return this.#endIdle();
    this.destroy();
    user.onLost({ kind: this.isConnecting ? "unreachable" : kind, reason, hasAnswered: this.#hasAnswered });
  }

  #endIdle(): void {
    if (this.#isOver) return;
    this.destroy();
    this.#onIdleEnd(this);
  }
}

/** Why a replica `isTaken` is not called, as the rest of a sentence. */
export const takenReason = "another program listens at its port";

/** What is wrong with the connection to a replica, as the rest of a sentence: node's own text has addresses, which are no caller's concern. */
export function connectionFault({ code }: NodeJS.ErrnoException): string {
  if (code === undefined) return "the connection to it broke";
  return reasons.get(code) ?? `the connection to it broke (${code})`;
}

const reasons: ReadonlyMap<string, string> = new Map([
  ["ECONNREFUSED", "it takes no connections (ECONNREFUSED)"],
  ["ECONNRESET", "it reset the connection (ECONNRESET)"],
  ["EPIPE", "it closed the connection while it was sent the request (EPIPE)"],
]);
