// The recent failed starts of one release. Pure. After failures the next attempt waits with
// increasing backoff, one replica at a time, and calls get the reason instead of waiting in vain.
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { ReleaseId } from "#lib/ids.ts";
import type { StartFailure } from "./replica-view.ts";

/** Consecutive failures; a new release starts with none. Times are by `Clock.monotonicMs`. */
export type StartRecord = {
  readonly releaseId: ReleaseId;
  /** The number of failures for which the release may be to blame. */
  readonly failures: number;
  /** When the latest failure was noticed. */
  readonly failedAtMs: number;
  /** Nothing is started before this time. */
  readonly retryAtMs: number;
  readonly reason: string;
  /** Calls get the reason instead of waiting for another attempt. */
  readonly isShown: boolean;
  /**
   * The driver refused the last start. Another driver, or the same driver with other settings, may
   * accept it.
   */
  readonly isRefused: boolean;
};

export type Failure = {
  readonly releaseId: ReleaseId;
  /** When the start began; concurrent failed starts count once. */
  readonly beganAtMs: number;
  /** When the failure was noticed. */
  readonly atMs: number;
  readonly reason: string;
  /**
   * `exited`: the replica ended before it was ready. `timeout`: it did not become ready in time.
   * `crashed`: it was ready, but only briefly. `by_call`: it was ready only briefly, and calls ran
   * on it when it ended. `external`: the backend lacked resources, or the replica was ended from
   * outside; the release is not to blame.
   */
  readonly kind: "exited" | "timeout" | "crashed" | "by_call" | "external";
  /** The driver refused the start; see `StartRecord`. */
  readonly isRefused: boolean;
};

/**
 * The pause between starts while calls end one replica after another, so that the starts do not
 * occupy the whole machine.
 */
const byCallMs = 1000;
/** The pauses after failures of the release. */
const policy: Backoff = { firstMs: 1000, factor: 2, msMax: 60_000, jitter: 0.1 };
/** The longest wait after starts that failed for reasons outside the release. */
const externalMsMax = 10_000;

/**
 * A replica that was ready for this long started successfully: a later exit says nothing about
 * starting.
 */
export const settledMs = 10_000;

/** Failures without a later attempt expire after this time. */
const forgetMs = 600_000;

/** The record after a failure. `random` is in [0, 1). */
export function recordFailure(
  record: StartRecord | undefined,
  failure: Failure,
  random: number,
): StartRecord {
  const earlier = record?.releaseId === failure.releaseId ? record : undefined;
  // This start was already going on when another start failed, so both count as one failure.
  if (earlier !== undefined && failure.beganAtMs < earlier.failedAtMs) return earlier;
  const { releaseId, atMs, reason, isRefused } = failure;
  if (failure.kind === "external") {
    const waitedMs = earlier === undefined ? 0 : earlier.retryAtMs - earlier.failedAtMs;
    const longerMs = Math.max(policy.firstMs, waitedMs * policy.factor);
    const retryAtMs = atMs + Math.min(externalMsMax, longerMs);
    const failures = earlier?.failures ?? 0;
    return { releaseId, failures, failedAtMs: atMs, retryAtMs, reason, isShown: false, isRefused };
  }
  if (failure.kind === "by_call") {
    // A call is to blame, not the release: other calls wait for the next replica, and are not
    // refused.
    const retryAtMs = earlier === undefined ? atMs : atMs + byCallMs;
    const failures = earlier?.failures ?? 0;
    return { releaseId, failures, failedAtMs: atMs, retryAtMs, reason, isShown: false, isRefused };
  }
  const failures = (earlier?.failures ?? 0) + 1;
  // The first crash after readiness is most likely caused by a call; the successor of the replica
  // must not wait.
  const isFirstCrash = failure.kind === "crashed" && failures === 1;
  const waitMs = isFirstCrash ? 0 : backoffMs(policy, failures, random);
  return {
    releaseId,
    failures,
    failedAtMs: atMs,
    retryAtMs: atMs + waitMs,
    reason,
    isRefused,
    // One failed start may be bad luck, so calls wait for the next start; after a timeout they do
    // not wait.
    isShown: failures >= 2 || failure.kind === "timeout",
  };
}

/**
 * How many starts may be added now: `max` without a record; with one, none before `retryAtMs` or
 * while another start goes on, and otherwise one.
 */
export function startsAllowed(
  record: StartRecord | undefined,
  limits: { nowMs: number; starting: number; max: number },
): number {
  if (record === undefined) return limits.max;
  if (limits.nowMs < record.retryAtMs || limits.starting > 0) return 0;
  return 1;
}

/**
 * True when the record is outdated: another release is live, a later replica started successfully,
 * or it has expired.
 */
export function isOver(
  record: StartRecord,
  situation: {
    readonly liveReleaseId: ReleaseId;
    /** When each replica of the release became ready. */
    readonly readyAtMs: readonly number[];
    readonly nowMs: number;
  },
): boolean {
  const { liveReleaseId, readyAtMs, nowMs } = situation;
  if (record.releaseId !== liveReleaseId) return true;
  if (nowMs - record.retryAtMs >= forgetMs) return true;
  return readyAtMs.some((atMs) => atMs > record.failedAtMs && nowMs - atMs >= settledMs);
}

/** The failure to report to waiting calls now, if any. */
export function shownFailure(
  record: StartRecord | undefined,
  nowMs: number,
): StartFailure | undefined {
  if (record === undefined || !record.isShown || nowMs >= record.retryAtMs) return undefined;
  const reason = `No replica of the app runs: ${record.reason} The app's log says more.`;
  return { kind: "start_failed", reason, retryAtMs: record.retryAtMs };
}
