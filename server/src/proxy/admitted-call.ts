// What a call of any kind (plain HTTP, WebSocket) is to the admission: something that enters an app, perhaps stands in
// its line, holds a place on one replica, and leaves exactly once.
import type { AppRoute } from "#apps/routes.ts";
import type { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId, RunId } from "#lib/ids.ts";
import { Timed } from "./deadlines.ts";
import type { InLine } from "./line.ts";
import type { ReplicaSlot } from "./replica-slot.ts";

/** The live release, as `AppRoute` has it. */
export type Live = NonNullable<AppRoute["live"]>;

/** What a call is about. */
export type CallAbout = {
  readonly runId: RunId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly method: string;
  /** What the replica is asked for. */
  readonly path: string;
  /** All lines for the replica but those of framing or handshake, and the call's id. */
  readonly lines: string;
  readonly clientAddress: string;
  /** Where its answer is forwarded to; null: nowhere. */
  readonly webhookEndpoint: string | null;
  readonly isWebSocket: boolean;
};

/** One call, as `AppCalls` admits it. */
export abstract class AdmittedCall extends Timed implements InLine {
  previousInLine: InLine | null = null;
  nextInLine: InLine | null = null;
  isInLine = false;
  /** The replica whose place it holds. Only `AppCalls` writes it. */
  slot: ReplicaSlot | null = null;
  /** The last one that it was sent to. */
  lastSlot: ReplicaSlot | null = null;
  /** What the client got; null: nothing. */
  status: number | null = null;
  requestBytes = 0;
  answerBytes = 0;
  abstract readonly about: CallAbout;
  /** In `Clock.monotonicMs`. */
  readonly arrivedAtMs: number;
  /** The release that was live when it came; its settings hold for the call. */
  readonly live: Live;
  /** How long it stood in the line. */
  lineMs = 0;

  constructor(arrivedAtMs: number, live: Live) {
    super();
    this.arrivedAtMs = arrivedAtMs;
    this.live = live;
  }

  /** A place was found: `slot` is set. Must not leave before it has returned. */
  abstract begin(slot: ReplicaSlot, nowMs: number): void;
  /** It is out of the line without a place. */
  abstract refuse(fault: Fault): void;
}
