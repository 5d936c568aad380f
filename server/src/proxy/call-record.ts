// Makes the record of a finished call. Called only if a listener wants the record.
import type { Clock } from "#lib/clock.ts";
import type { AdmittedCall } from "./admitted-call.ts";
import type { CallOutcome, FinishedCall } from "./finished-call.ts";

/** The record of a call that ends now. */
export function recordOf(call: AdmittedCall, outcome: CallOutcome, clock: Clock): FinishedCall {
  const { about, live, lastSlot, status, lineMs, requestBytes, answerBytes } = call;
  const { runId, projectId, appId, method, path, isWebSocket, clientAddress, webhookEndpoint } =
    about;
  const totalMs = clock.monotonicMs() - call.arrivedAtMs;
  const queryStart = path.indexOf("?");
  const receivedAt = clock.now() - totalMs;
  // A call that never got a slot has a `begunAtMs` of 0, so it counts as begun when it arrived.
  return {
    runId,
    projectId,
    appId,
    releaseId: lastSlot?.replica.releaseId ?? live.releaseId,
    replicaId: lastSlot?.replica.replicaId ?? null,
    method,
    path: queryStart === -1 ? path : path.slice(0, queryStart),
    isWebSocket,
    clientAddress,
    webhookEndpoint,
    outcome,
    status,
    reason: call.fault?.message ?? null,
    isReasonOfApp: call.error !== null,
    receivedAt,
    begunAt: receivedAt + Math.max(0, call.begunAtMs - call.arrivedAtMs),
    lineMs,
    totalMs,
    requestBytes,
    answerBytes,
  };
}
