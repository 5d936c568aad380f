// Decides what follows an attempt of a delivery: delivered, retried after a delay, or failed for
// good. Pure.
import { retryAfterMs } from "#lib/retry-after.ts";

/**
 * `standard`: 10 attempts over about 75 hours. `short`: 3 attempts within 10 seconds, with fewer
 * statuses retried.
 */
export type ScheduleName = "standard" | "short";

/** How an attempt ended, as far as the schedule needs to know. */
export type AttemptEnd =
  | { readonly kind: "answered"; readonly status: number; readonly retryAfter: string | null }
  /** No answer; the reason is a sentence. */
  | { readonly kind: "failed"; readonly reason: string };

export type AttemptVerdict =
  | { readonly kind: "delivered" }
  | { readonly kind: "retry"; readonly waitMs: number; readonly reason: string }
  | { readonly kind: "failed"; readonly reason: string };

/** The inputs of the verdict. */
export type JudgedAttempt = {
  readonly schedule: ScheduleName;
  /** The number of the ended attempt; 1 is the first since the delivery was created or replayed. */
  readonly attempt: number;
  readonly end: AttemptEnd;
  readonly nowMs: number;
  /** A random number in [0, 1). */
  readonly random: number;
};

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

type Schedule = {
  /** The delays before the second attempt, the third and so on. */
  readonly waitsMs: readonly number[];
  readonly retryAfterMsMax: number;
  /** Whether another attempt may succeed after an answer with this status, which is not 2xx. */
  isTriedAgain(status: number): boolean;
};

const schedules: Readonly<Record<ScheduleName, Schedule>> = {
  standard: {
    // A short outage of the receiver costs seconds, and an outage of a long weekend is survived:
    // 75.6 hours in total.
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
    // Redirects may be mistakes that somebody mends, 404 and 409 may be passing states of a
    // receiver, and 408, 425 and 429 ask for another attempt.
    isTriedAgain: (status) =>
      status < 400 || status >= 500 || [404, 408, 409, 425, 429].includes(status),
  },
  short: {
    // Each delay is, even with jitter, below the 5 seconds that callers rely on.
    waitsMs: [2 * secondMs, 4 * secondMs],
    retryAfterMsMax: 5 * secondMs,
    isTriedAgain: (status) => status < 400 || status === 404,
  },
};

/** The part of a delay by which it is made longer or shorter at most. */
const jitter = 0.2;

/** Judges an attempt. Never throws, whatever the receiver sent. */
export function judgeAttempt({
  schedule: name,
  attempt,
  end,
  nowMs,
  random,
}: JudgedAttempt): AttemptVerdict {
  const schedule = schedules[name];
  const reason = attemptReason(end);
  if (reason === null) return { kind: "delivered" };
  const waitMs = schedule.waitsMs[attempt - 1];
  if (end.kind === "answered" && !schedule.isTriedAgain(end.status)) {
    return { kind: "failed", reason: `${reason} It is not retried after such an answer.` };
  }
  if (waitMs === undefined)
    return { kind: "failed", reason: `${reason} That was attempt ${attempt}, the last one.` };
  const plainMs = Math.round(waitMs * (1 + jitter * (2 * random - 1)));
  const requestedMs = end.kind === "answered" ? retryAfterMs(end.retryAfter, nowMs) : 0;
  return {
    kind: "retry",
    waitMs: Math.max(plainMs, Math.min(requestedMs, schedule.retryAfterMsMax)),
    reason,
  };
}

/** Why an attempt failed, as a sentence; null when it succeeded. */
function attemptReason(end: AttemptEnd): string | null {
  if (end.kind === "failed") return end.reason;
  if (end.status >= 200 && end.status < 300) return null;
  if (end.status === 410) return "The receiver answered 410: it no longer wants this delivery.";
  if (end.status >= 300 && end.status < 400) {
    return `The receiver answered ${end.status}; redirects are not followed.`;
  }
  return `The receiver answered ${end.status}.`;
}

/** True when the receiver may be overloaded or unavailable, so it should get less at once. */
export function isTrouble(end: AttemptEnd): boolean {
  return end.kind === "failed" || end.status === 429 || end.status >= 500;
}
