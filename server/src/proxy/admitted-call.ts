// The base of all calls, such as plain HTTP calls and WebSockets, as admission sees them: a call
// enters an app, may wait in the app's line, holds a slot on one replica, and leaves exactly once.
import type { AppRoute } from "#apps/routes.ts";
import type { Fault } from "#lib/fault.ts";
import { Timed } from "./deadlines.ts";
import type { FinishedCall } from "./finished-call.ts";
import type { InLine } from "./line.ts";
import type { ReplicaSlot } from "./replica-slot.ts";

/** The live release, as `AppRoute` has it. */
export type Live = NonNullable<AppRoute["live"]>;

/** What admission needs to know about a call. */
export type CallAbout = Pick<
  FinishedCall,
  "runId" | "projectId" | "appId" | "method" | "clientAddress" | "webhookEndpoint" | "isWebSocket"
> & {
  /** The path that the replica is asked for. */
  readonly path: string;
  /**
   * The path that clients see as the root of the app, without a slash at its end; empty when the
   * app was called by a host name of its own.
   */
  readonly rootPath: string;
  /** The field lines for the replica, except framing, handshake and the call's id. */
  readonly lines: string;
};

/** One call, as `AppCalls` admits it. */
export abstract class AdmittedCall extends Timed implements InLine {
  previousInLine: InLine | null = null;
  nextInLine: InLine | null = null;
  isInLine = false;
  /** The slot that the call holds now. Only `AppCalls` writes it. */
  slot: ReplicaSlot | null = null;
  /** The slot of the last replica to which the call was sent. */
  lastSlot: ReplicaSlot | null = null;
  /** The status sent to the client; null: none yet. */
  status: number | null = null;
  /**
   * How many bytes of the body have been sent to the replica so far. For a WebSocket: how many
   * bytes the client has sent after its head.
   */
  requestBytes = 0;
  /** How many bytes have followed the head of the answer so far. */
  answerBytes = 0;
  abstract readonly about: CallAbout;
  /** When the call arrived, by `Clock.monotonicMs`. */
  readonly arrivedAtMs: number;
  /**
   * The release that was live on arrival. Its settings apply to the call, even if a replica of
   * another release works on it.
   */
  readonly live: Live;
  /** How long the call waited in the line. */
  lineMs = 0;
  /** When the call got its latest slot, by `Clock.monotonicMs`. */
  begunAtMs = 0;
  /** Why the platform has ended the call; null: the platform has not ended it. */
  fault: Fault | null = null;
  /** The error of the app's function after its answer had begun; null: none is known. */
  error: string | null = null;

  constructor(arrivedAtMs: number, live: Live) {
    super();
    this.arrivedAtMs = arrivedAtMs;
    this.live = live;
  }

  /** Called when the call has got a slot. The call must not leave before this returns. */
  abstract begin(slot: ReplicaSlot, nowMs: number): void;
  /** Called when the call has left the line without a slot. */
  abstract refuse(fault: Fault): void;
}
