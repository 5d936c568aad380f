// Makes the record of a finished plain call, and decides the call's final state. Pure.
import type { FinalState } from "@slipway/contract/words.ts";
import type { FinishedCall } from "#proxy/finished-call.ts";

/** A row of `calls`. */
export type CallRecord = Omit<
  FinishedCall,
  "outcome" | "status" | "requestBytes" | "answerBytes" | "begunAt" | "isReasonOfApp"
> & {
  readonly state: FinalState;
  readonly statusCode: number | null;
  /** Why the call broke off; null: it did not. */
  readonly reason: string | null;
  /** When the call ended, in milliseconds since the epoch like `receivedAt`. */
  readonly endedAt: number;
};

/** Longer texts are truncated: callers choose them, and records are many. */
const textLengthMax = 2_000;
/** The proxy's status for a call whose connection to its replica broke. */
const badGateway = 502;
/** The proxy's status for a call whose deadline passed. */
const gatewayTimeout = 504;

/** True when the call's connection to its replica broke. */
export function isBrokenOff({
  outcome,
  status,
}: Pick<FinishedCall, "outcome" | "status">): boolean {
  return outcome === "cut" || (outcome === "refused" && status === badGateway);
}

/** The record of a call; `endOfReplica` is why its replica ended, if it did. */
export function callRecordOf(call: FinishedCall, endOfReplica: string | null = null): CallRecord {
  const reason = isBrokenOff(call) ? (endOfReplica ?? call.reason) : null;
  const {
    runId,
    projectId,
    appId,
    releaseId,
    replicaId,
    status,
    isWebSocket,
    receivedAt,
    lineMs,
    totalMs,
  } = call;
  return {
    runId,
    projectId,
    appId,
    state: stateOf(call),
    releaseId,
    replicaId,
    statusCode: status,
    reason,
    isWebSocket,
    method: textOf(call.method),
    path: textOf(call.path),
    clientAddress: textOf(call.clientAddress),
    webhookEndpoint: call.webhookEndpoint === null ? null : textOf(call.webhookEndpoint),
    receivedAt,
    endedAt: receivedAt + totalMs,
    lineMs,
    totalMs,
  };
}

/**
 * An answer of 4xx or 5xx is a failure, and so is a call that broke off. An answer of 3xx is a
 * success, unlike with an async run: the caller can follow the redirect.
 */
export function stateOf({
  outcome,
  status,
}: Pick<FinishedCall, "outcome" | "status">): CallRecord["state"] {
  switch (outcome) {
    case "answered":
      return status !== null && status < 400 ? "success" : "failure";
    case "refused":
      return status === gatewayTimeout ? "timeout" : "failure";
    case "client_gone":
      return "cancelled";
    case "cut":
      return "failure";
  }
}

/**
 * The beginning of a text, as PostgreSQL can store it: without null characters, and without halves
 * of surrogate pairs, which the cut may leave.
 */
function textOf(text: string): string {
  return text.slice(0, textLengthMax).replaceAll("\0", "").toWellFormed();
}
