// How starting replicas of one release went of late: pure. Failures wait longer and longer before the next try, one
// replica at a time, and their reason is shown to calls that would otherwise wait for nothing.
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { ReleaseId } from "#lib/ids.ts";
import type { StartFailure } from "./replica-view.ts";

/** Failures in a row; a new release begins with none. Times in `Clock.monotonicMs`. */
export type StartRecord = {
  readonly releaseId: ReleaseId;
  readonly failures: number;
  readonly failedAtMs: number;
  readonly retryAtMs: number;
  readonly reason: string;
  /** Calls need not wait for another try. */
  readonly isShown: boolean;
};

export type Failure = {
  readonly releaseId: ReleaseId;
  /** When the start began; failures of starts that ran side by side count once. */
  readonly beganAtMs: number;
  readonly atMs: number;
  readonly reason: string;
  /** `crashed`: it was ready, but not for long. */
  readonly kind: "exited" | "timeout" | "crashed";
};

const policy: Backoff = { firstMs: 1000, factor: 2, msMax: 60_000, jitter: 0.1 };

/** A replica that was ready for so long started well: what happens then says nothing about starting. */
export const settledMs = 10_000;

/** Failures without a later try count no more after this time. */
const forgetMs = 600_000;

/** The record after a failure. `random` is in [0, 1). */
export function recordFailure(record: StartRecord | undefined, failure: Failure, random: number): StartRecord {
  const before = record?.releaseId === failure.releaseId ? record : undefined;
  if (before !== undefined && failure.beganAtMs < before.failedAtMs) return before;
  const failures = (before?.failures ?? 0) + 1;
  // The first crash after readiness is most likely the fault of a call; its successor must not wait.
  const waitMs = failure.kind === "crashed" && failures === 1 ? 0 : backoffMs(policy, failures, random);
  return {
    releaseId: failure.releaseId,
    failures,
    failedAtMs: failure.atMs,
    retryAtMs: failure.atMs + waitMs,
    reason: failure.reason,
    // One failed start may be bad luck and is tried again while calls wait; a start that took all its time is not.
    isShown: failures >= 2 || failure.kind === "timeout",
  };
}

/** How many starts may run side by side now: none while waiting, one after a failure, else `most`. */
export function startsAllowed(
  record: StartRecord | undefined,
  given: { nowMs: number; starting: number; max: number },
): number {
  if (record === undefined) return given.max;
  if (given.nowMs < record.retryAtMs || given.starting > 0) return 0;
  return 1;
}

/** True when the record says nothing any more: another release is live, a later replica started well, or it was long ago. */
export function isOver(
  record: StartRecord,
  given: { readonly liveReleaseId: ReleaseId; readonly readyAtMs: readonly number[]; readonly nowMs: number },
): boolean {
  if (record.releaseId !== given.liveReleaseId || given.nowMs - record.retryAtMs >= forgetMs) return true;
  return given.readyAtMs.some((atMs) => atMs > record.failedAtMs && given.nowMs - atMs >= settledMs);
}

/** What waiting calls should be told now, if anything. */
export function shownFailure(record: StartRecord | undefined, nowMs: number): StartFailure | undefined {
  if (record === undefined || !record.isShown || nowMs >= record.retryAtMs) return undefined;
  const reason = `No replica of the app runs: ${record.reason} The app's log says more.`;
  return { kind: "start_failed", reason, retryAtMs: record.retryAtMs };
}
