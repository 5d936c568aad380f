// What becomes of a delivery after an attempt: delivered, tried again after a while, or failed for good. Pure.
import { never } from "#lib/assert.ts";
import { retryAfterMs } from "#lib/retry-after.ts";

/** `standard`: 10 attempts over about 75 hours. `short`: 3 attempts within 10 seconds, and fewer answers are tried again. */
export type ScheduleName = "standard" | "short";

/** How an attempt ended, as far as the schedule looks at it. */
export type AttemptEnd =
  | { readonly kind: "answered"; readonly status: number; readonly retryAfter: string | null }
  /** No answer; the reason is a sentence. */
  | { readonly kind: "failed"; readonly reason: string };

export type AttemptVerdict =
  | { readonly kind: "delivered" }
  | { readonly kind: "retry"; readonly waitMs: number; readonly reason: string }
  | { readonly kind: "failed"; readonly reason: string };

/** What the verdict depends on. */
export type JudgedAttempt = {
  readonly schedule: ScheduleName;
  /** Of the attempt that ended; 1 is the first since the delivery was made or replayed. */
  readonly attempt: number;
  readonly end: AttemptEnd;
  readonly nowMs: number;
  /** In [0, 1). */
  readonly random: number;
};

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

type Schedule = {
  /** Before the second attempt, the third and so on. */
  readonly waitsMs: readonly number[];
  readonly retryAfterMsMax: number;
  isTriedAgain(status: number): boolean;
};

const schedules: Readonly<Record<ScheduleName, Schedule>> = {
  standard: {
    // A short break of the receiver costs seconds; one over a long weekend is outlived: 75.6 hours in all.
    waitsMs: [
      5 * secondMs,
      5 * minuteMs,
      30 * minuteMs,
      2 * hourMs,
      5 * hourMs,
      10 * hourMs,
      14 * hourMs,
      20 * hourMs,
      24 * hourMs,
    ],
    retryAfterMsMax: 24 * hourMs,
    isTriedAgain: (status) => status < 400 || status >= 500 || [404, 408, 409, 425, 429].includes(status),
  },
  short: {
    // With jitter below the 5 seconds that callers count on.
    waitsMs: [2 * secondMs, 4 * secondMs],
    retryAfterMsMax: 5 * secondMs,
    isTriedAgain: (status) => status < 400 || status === 404,
  },
};

const jitter = 0.2;

/** Judges an attempt. Never throws, whatever the receiver sent. */
export function judgeAttempt({ schedule: name, attempt, end, nowMs, random }: JudgedAttempt): AttemptVerdict {
  const schedule = schedules[name];
  const reason = attemptReason(end);
  if (reason === null) return { kind: "delivered" };
  const waitMs = schedule.waitsMs[attempt - 1];
  if (end.kind === "answered" && !schedule.isTriedAgain(end.status)) {
    return { kind: "failed", reason: `${reason} It is not retried after such an answer.` };
  }
  if (waitMs === undefined) return { kind: "failed", reason: `${reason} That was attempt ${attempt}, the last one.` };
  const plainMs = Math.round(waitMs * (1 + jitter * (2 * random - 1)));
  const asked = end.kind === "answered" ? retryAfterMs(end.retryAfter, nowMs) : 0;
  return { kind: "retry", waitMs: Math.max(plainMs, Math.min(asked, schedule.retryAfterMsMax)), reason };
}

/** Why an attempt was no success, as a sentence; null when it was one. */
export function attemptReason(end: AttemptEnd): string | null {
  if (end.kind === "failed") return end.reason;
  if (end.kind !== "answered") return never(end);
  if (end.status >= 200 && end.status < 300) return null;
  if (end.status === 410) return "The receiver answered 410: it no longer wants this delivery.";
  if (end.status >= 300 && end.status < 400) {
    return `The receiver answered ${end.status}; redirects are not followed.`;
  }
  return `The receiver answered ${end.status}.`;
}

/** True when the receiver may be overloaded or away, so that fewer deliveries at a time should go to it. */
export function isTrouble(end: AttemptEnd): boolean {
  return end.kind === "failed" || end.status === 429 || end.status >= 500;
}
