// What is told about a call that has ended, taken from the call. Made only where somebody asked for it.
import type { Clock } from "#lib/clock.ts";
import { Call } from "./call.ts";
import type { CallOutcome, FinishedCall } from "./finished-call.ts";
import { ForwardingClient } from "./forwarding.ts";
import type { UpgradeCall } from "./upgrade-call.ts";

/** The record of a call that ends now. */
export function recordOf(call: Call | UpgradeCall, outcome: CallOutcome, clock: Clock): FinishedCall {
  const { about, app, live, lastSlot, status, lineMs, requestBytes, answerBytes } = call;
  const totalMs = clock.monotonicMs() - call.arrivedAtMs;
  const query = about.path.indexOf("?");
  const client = call instanceof Call ? call.about.client : null;
  return {
    runId: about.runId,
    projectId: about.projectId,
    appId: app.meter.appId,
    releaseId: live.releaseId,
    replicaId: lastSlot?.replica.replicaId ?? null,
    method: client?.method ?? "GET",
    path: query === -1 ? about.path : about.path.slice(0, query),
    isWebSocket: client === null,
    clientAddress: about.clientAddress,
    webhookEndpoint: client instanceof ForwardingClient ? client.forwarded.url : null,
    outcome,
    status,
    receivedAt: clock.now() - totalMs,
    lineMs,
    totalMs,
    requestBytes,
    answerBytes,
  };
}
