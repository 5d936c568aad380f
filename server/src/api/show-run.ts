// Runs in the format of the API: the keys that existing clients read, then our own.
import type { z } from "zod";
import type { run } from "@slipway/contract/answers.ts";
import { shownAppId, type ProjectId } from "#lib/ids.ts";
import type { RunRow } from "#runs/run-list-store.ts";

/**
 * How long each phase has lasted. The present phase of a run that has not ended lasts until now.
 */
type Spans = {
  /** When the wait for a replica began; null: it has not begun. */
  readonly waitStartedAt: Date | null;
  /** When the wait for a replica ended; null: it has not ended. */
  readonly waitEndedAt: Date | null;
  /** The time until a platform took the run up. */
  readonly pendingMs: number;
  /** The time in the line for a replica. */
  readonly slotMs: number;
  readonly executionMs: number;
  readonly totalMs: number;
};

/** A run in the format of the API. */
export function showRun(
  row: RunRow,
  context: {
    readonly projectId: ProjectId;
    /** Why calls of the app wait now; undefined: unknown. */
    readonly waitReason: string | undefined;
    /** The present time, in milliseconds since 1970. */
    readonly nowMs: number;
  },
): z.infer<typeof run> {
  const { projectId, waitReason, nowMs } = context;
  const spans = row.is_async ? spansOfRun(row, nowMs) : spansOfCall(row);
  const queueMs = spans.pendingMs + spans.slotMs;
  const acceptedAt = row.accepted_at.toISOString();
  return {
    async: row.is_async,
    completedAt: text(row.ended_at),
    containerId: row.replica_id,
    containerStartedAt: text(row.replica_started_at),
    createdAt: acceptedAt,
    // A path begins with a slash, so its first name is the second part.
    functionName: row.path.split("/")[1] ?? "",
    id: row.id,
    ip: row.client_address,
    method: row.method,
    modelId: shownAppId(row.app_id),
    projectId,
    queueProxyReceivedAt: acceptedAt,
    queueProxyWaitStartedAt: text(spans.waitStartedAt),
    queueProxyWaitEndedAt: text(spans.waitEndedAt),
    queueTimeMs: queueMs,
    region: row.region,
    responseTimeMs: spans.totalMs,
    runtimeMs: spans.executionMs,
    // Clients that run a file wait for `failed` as the word for any end without success.
    status: row.is_file_run && isEndWithoutSuccess(row) ? "failed" : row.state,
    statusCode: row.status_code,
    updatedAt: latest(row).toISOString(),
    webhookEndpoint: row.webhook_endpoint,
    websocket: row.is_websocket,
    activatorQueueTimeMs: Math.round(spans.pendingMs),
    containerQueueTimeMs: Math.round(spans.slotMs),
    totalQueueTimeMs: Math.round(queueMs),
    executionTimeMs: Math.round(spans.executionMs),
    totalResponseTimeMs: Math.round(spans.totalMs),
    attempts: row.attempt,
    releases: [...row.releases],
    reason: row.state === "queued" ? (waitReason ?? row.reason) : row.reason,
    acceptedAt,
    queuedAt: text(row.queued_at),
    startedAt: text(row.is_async ? row.started_at : spans.waitEndedAt),
    endedAt: text(row.ended_at),
    cancelRequestedAt: text(row.cancel_requested_at),
    redrivenAs: row.redriven_as,
  };
}

/**
 * The phases of an async run: pending (no platform works on it), queued (in the line for a
 * replica), running. A run that was retried is queued and running as in its latest attempt; its
 * earlier attempts count as pending.
 */
function spansOfRun(row: RunRow, nowMs: number): Spans {
  const acceptedMs = row.accepted_at.getTime();
  const endMs = row.ended_at?.getTime() ?? nowMs;
  const isWaiting = row.state === "pending" || row.state === "queued";
  const startedAt = isWaiting ? null : row.started_at;
  const startedMs = startedAt?.getTime() ?? endMs;
  const queuedAtMs = row.queued_at?.getTime() ?? startedMs;
  // A run that is pending, perhaps once more, counts as pending until now; any other run was
  // pending until it was queued.
  const pendingUntilMs = row.state === "pending" ? endMs : queuedAtMs;
  // The clocks may differ, but a wait never begins after its end.
  const queuedMs = Math.min(pendingUntilMs, startedMs);
  return {
    waitStartedAt: row.queued_at,
    waitEndedAt: startedAt,
    pendingMs: atLeast0(queuedMs - acceptedMs),
    slotMs: atLeast0(startedMs - queuedMs),
    executionMs: atLeast0(endMs - startedMs),
    totalMs: atLeast0(endMs - acceptedMs),
  };
}

/** The phases of a plain call: in the line, then running if it reached a replica. */
function spansOfCall(row: RunRow): Spans {
  const totalMs = row.total_ms ?? 0;
  const hasReachedReplica = row.replica_id !== null;
  const slotMs = hasReachedReplica ? Math.min(row.line_ms ?? 0, totalMs) : totalMs;
  const slotEndMs = row.accepted_at.getTime() + slotMs;
  return {
    waitStartedAt: row.accepted_at,
    waitEndedAt: hasReachedReplica ? new Date(slotEndMs) : null,
    pendingMs: 0,
    slotMs,
    executionMs: totalMs - slotMs,
    totalMs,
  };
}

function isEndWithoutSuccess({ state, ended_at: endedAt }: RunRow): boolean {
  return endedAt !== null && state !== "success";
}

/** The latest of the run's times; a time that the run does not have counts as 1970. */
function latest(row: RunRow): Date {
  const times = [
    row.accepted_at,
    row.queued_at,
    row.started_at,
    row.cancel_requested_at,
    row.ended_at,
  ];
  const timesMs = times.map((time) => time?.getTime() ?? 0);
  return new Date(Math.max(...timesMs));
}

function text(time: Date | null): string | null {
  return time?.toISOString() ?? null;
}

/** Times come from several clocks, so a later time may have the smaller value. */
function atLeast0(ms: number): number {
  return Math.max(0, ms);
}
