// One connection to a replica: a plain socket, a strict parser, one call at a time. It belongs to a
// pool; the call that uses it receives its events until the call releases or destroys it.
import { connect, type Socket } from "node:net";
import { isTaken, type ReadyReplica } from "#scheduler/replica-view.ts";
import { AnswerParser, type AnswerSink } from "./answer-parser.ts";
import type { RequestKind } from "./answer-head.ts";
import { Timed, type Deadlines } from "./deadlines.ts";

/** How a connection was lost. */
export type Loss = {
  /** `unreachable`: the connection was never established, so the replica has seen nothing. */
  readonly kind: "unreachable" | "closed" | "malformed";
  /** The reason for the log and the caller; it completes a sentence. */
  readonly reason: string;
  /**
   * The error that the app's function raised after its answer had begun, as reported by the
   * runtime; null: none was reported.
   */
  readonly error: string | null;
  /** Some bytes of the answer to this call had arrived. */
  readonly hasAnswered: boolean;
};

/** The call that uses a connection. */
export interface ConnectionUser extends AnswerSink {
  /** Called when a new connection is established and may be written to. */
  onConnected(): void;
  /** Called when the write buffer has drained; more may be written. */
  onDrain(): void;
  /** Called when all bytes received so far have been passed on. */
  onRead(): void;
  /** Called when the platform itself failed to process the input; the connection is closed. */
  onBroken(error: unknown): void;
  /** Called when the connection is lost. */
  onLost(loss: Loss): void;
}

export type ConnectionOptions = {
  readonly address: ReadyReplica["address"];
  readonly deadlines: Deadlines;
  /** Shared by all connections: bytes are passed on before the next read. */
  readonly readBuffer: Buffer;
  readonly nowMs: number;
  /** Called once when an unused connection ends. */
  readonly onIdleEnd: (connection: ReplicaConnection) => void;
};

/**
 * The connect timeout. On loopback and within one network a connection succeeds at once or never.
 */
const connectMs = 5_000;
/** After this silence, the system probes whether the replica's machine still answers. */
const keepAliveProbeMs = 30_000;

/** Connects at once. Belongs to one call from `use` to `leave` or `destroy`. */
export class ReplicaConnection extends Timed {
  /** The connection has served an earlier call. */
  isReused = false;
  isConnecting = true;
  readonly #socket: Socket;
  readonly #parser = new AnswerParser();
  readonly #address: ReadyReplica["address"];
  readonly #deadlines: Deadlines;
  readonly #onIdleEnd: (connection: ReplicaConnection) => void;
  /** The call that uses the connection; null: none does. */
  #user: ConnectionUser | null = null;
  /** Some bytes have arrived since the call got the connection. */
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
      onread: {
        buffer: readBuffer,
        callback: (count, bytes) => this.#read(count, bytes as Buffer),
      },
    });
    this.#socket = socket;
    // This socket need not keep the process alive: the connection of a running call's client does.
    socket.unref();
    socket.on("connect", () => this.#connected());
    socket.on("drain", () => this.#user?.onDrain());
    socket.on("end", () => this.#ended());
    socket.on("error", (error) => this.#lose("closed", connectionFault(error)));
    socket.on("close", () => this.#lose("closed", "the replica closed the connection"));
    deadlines.set(this, nowMs + connectMs);
  }

  /** True while the connection can serve another call. */
  get isUsable(): boolean {
    return !this.#isOver && this.#parser.problem === undefined && !this.#parser.isExpecting;
  }

  /** Assigns the connection to a call; `user` gets the events from now on. */
  use(user: ConnectionUser, request: RequestKind): void {
    this.#user = user;
    this.#hasAnswered = false;
    this.#parser.expect(request, user);
  }

  /** Detaches the connection from its call; from now on only the pool gets events. */
  leave(): void {
    this.#user = null;
    this.isReused = true;
    if (this.#isPaused) this.resume();
  }

  /**
   * Sends bytes, or a text with one character per byte. False: wait for `onDrain` before sending
   * more.
   */
  write(piece: string | Buffer): boolean {
    return this.#socket.write(piece, "latin1");
  }

  /** Pauses reading until `resume`. Takes effect after the bytes being processed. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  /** Closes the connection at once, without notifying the user. */
  destroy(): void {
    this.#isOver = true;
    this.#user = null;
    this.#deadlines.clear(this);
    this.#socket.destroy();
  }

  /** Called when the connect timeout or the idle timeout has passed. */
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

  /** Called when Node has read `count` bytes into the shared buffer; false pauses the socket. */
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
    // After the regular end of an answer, no call uses the connection any more.
    if (this.#parser.finish()) this.#endIdle();
    else this.#lose("closed", "the replica closed the connection");
  }

  #lose(kind: Loss["kind"], reason: string): void {
    if (this.#isOver) return;
    const user = this.#user;
    if (user === null) return this.#endIdle();
    this.destroy();
    const { error } = this.#parser;
    user.onLost({
      kind: this.isConnecting ? "unreachable" : kind,
      reason,
      error,
      hasAnswered: this.#hasAnswered,
    });
  }

  #endIdle(): void {
    if (this.#isOver) return;
    this.destroy();
    this.#onIdleEnd(this);
  }
}

/** The reason when `isTaken` is true of a replica's address; it completes a sentence. */
const takenReason = "another program listens at its port";

/**
 * Describes the error of a connection to a replica, to complete a sentence: Node's own text has
 * addresses, which callers must not see.
 */
export function connectionFault({ code }: NodeJS.ErrnoException): string {
  if (code === undefined) return "the connection to it broke";
  return reasons.get(code) ?? `the connection to it broke (${code})`;
}

const reasons: ReadonlyMap<string, string> = new Map([
  ["ECONNREFUSED", "it takes no connections (ECONNREFUSED)"],
  ["ECONNRESET", "it reset the connection (ECONNRESET)"],
  ["EPIPE", "it closed the connection while it was sent the request (EPIPE)"],
]);
