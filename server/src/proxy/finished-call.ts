// What is told about a call that has ended. Nothing of it is made unless somebody asked for it.
import type { AppId, ProjectId, ReleaseId, ReplicaId, RunId } from "#lib/ids.ts";

/** How a call ended for its client. */
export type CallOutcome =
  /** The app's answer was sent whole. */
  | "answered"
  /** The platform answered with a fault. */
  | "refused"
  /** The client went away first. */
  | "client_gone"
  /** The app's answer broke off after its head. */
  | "cut";

/** One call. Durations in milliseconds; `receivedAt` in milliseconds since the epoch. */
export type FinishedCall = {
  readonly runId: RunId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  /** Null: it never reached one. */
  readonly replicaId: ReplicaId | null;
  readonly method: string;
  /** As the replica was asked, without the query. */
  readonly path: string;
  readonly isWebSocket: boolean;
  /** Where its answer was forwarded to; null: nowhere. */
  readonly webhookEndpoint: string | null;
  readonly clientAddress: string;
  readonly outcome: CallOutcome;
  /** What the client got; null: nothing. */
  readonly status: number | null;
  readonly receivedAt: number;
  readonly lineMs: number;
  readonly totalMs: number;
  readonly requestBytes: number;
  readonly answerBytes: number;
};

/** Told of each finished call; must return at once. */
export type OnFinished = (call: FinishedCall) => void;
