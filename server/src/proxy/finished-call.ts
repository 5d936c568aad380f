// The record of a finished call, which is made only if a listener wants it.
import type { AppKey, ReleaseId, ReplicaId, RunId } from "#lib/ids.ts";

/** How a call ended for its client. */
export type CallOutcome =
  /** The app's answer was sent in full. */
  | "answered"
  /** The platform answered with a fault. */
  | "refused"
  /** The client disconnected first. */
  | "client_gone"
  /** The app's answer broke off after its head. */
  | "cut";

/** One call. Durations in milliseconds; `receivedAt` in milliseconds since the epoch. */
export type FinishedCall = AppKey & {
  readonly runId: RunId;
  readonly releaseId: ReleaseId;
  /** Null: the call never reached a replica. */
  readonly replicaId: ReplicaId | null;
  readonly method: string;
  /** The path sent to the replica, without the query. */
  readonly path: string;
  readonly isWebSocket: boolean;
  /** The webhook that gets the answer; null: none. */
  readonly webhookEndpoint: string | null;
  readonly clientAddress: string;
  readonly outcome: CallOutcome;
  /** Why the platform ended the call; null: the platform did not end it. */
  readonly reason: string | null;
  /** The reason is the app's own error, so the end of the replica would not explain more. */
  readonly isReasonOfApp: boolean;
  /**
   * When the call got its slot on a replica, or arrived if it never got one, in milliseconds since
   * the epoch.
   */
  readonly begunAt: number;
  /** The status sent to the client; null: none. */
  readonly status: number | null;
  readonly receivedAt: number;
  /** How long the call waited in the line. */
  readonly lineMs: number;
  /** From the call's arrival to its end. */
  readonly totalMs: number;
  readonly requestBytes: number;
  readonly answerBytes: number;
};

/** Called for each finished call; must return at once. */
export type OnFinished = (call: FinishedCall) => void;
