// What admission knows of a call of any kind (plain HTTP, WebSocket): it enters an app, may wait in
// the app's line, holds a slot on one replica, and leaves exactly once.
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
   * The path that clients see as the root of the app, without a slash at its end; empty on a host
   * name of its own.
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
  /** The replica whose slot it holds. Only `AppCalls` writes it. */
  slot: ReplicaSlot | null = null;
  /** The last replica that it was sent to. */
  lastSlot: ReplicaSlot | null = null;
  /** The status sent to the client; null: none. */
  status: number | null = null;
  requestBytes = 0;
  answerBytes = 0;
  abstract readonly about: CallAbout;
  /** In `Clock.monotonicMs`. */
  readonly arrivedAtMs: number;
  /**
   * The release that was live on arrival; its settings apply to the call, also where another
   * release works on it.
   */
  readonly live: Live;
  /** How long it waited in the line. */
  lineMs = 0;
  /** When it got the slot that it has, or had last; in `Clock.monotonicMs`. */
  begunAtMs = 0;
  /** Why the platform, and not the app, ended it; null: it did not. */
  fault: Fault | null = null;
  /** What the app's function raised after its answer had begun; null: that is not known. */
  error: string | null = null;

  constructor(arrivedAtMs: number, live: Live) {
    super();
    this.arrivedAtMs = arrivedAtMs;
    this.live = live;
  }

  /** A slot is assigned: `slot` is set. The call must not leave before this returns. */
  abstract begin(slot: ReplicaSlot, nowMs: number): void;
  /** The call has left the line without a slot. */
  abstract refuse(fault: Fault): void;
}
