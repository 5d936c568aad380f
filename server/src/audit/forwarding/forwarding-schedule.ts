// Decides what happens to a batch after an attempt: taken, retried later, or paused. Pure.
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { OutwardAnswer } from "#lib/outward-request.ts";
import { retryAfterMs } from "#lib/retry-after.ts";

export type BatchVerdict =
  | { readonly kind: "taken" }
  | { readonly kind: "again"; readonly waitMs: number; readonly reason: string }
  | { readonly kind: "pause"; readonly reason: string };

/** The inputs of the verdict. */
export type JudgedBatch = {
  readonly answer: OutwardAnswer;
  /** Failed attempts since the last success, without the attempt that is judged. */
  readonly failures: number;
  /** When the first of these attempts failed; null: there is none. */
  readonly failingSinceMs: number | null;
  /** False for the operator's receiver: nobody would resume it. */
  readonly isPausable: boolean;
  readonly nowMs: number;
  /** A random number from 0, inclusive, to 1, exclusive. */
  readonly random: number;
};

/** The waits are short at first, and bounded, so that a recovered receiver does not wait long. */
const waits: Backoff = { firstMs: 1_000, factor: 2, msMax: 900_000, jitter: 0.2 };
/** The longest wait that a receiver can ask for with `Retry-After`. */
const retryAfterMsMax = 3_600_000;
/** After failing for this long, a forwarding is paused: longer than a weekend with a holiday. */
const failingMsMax = 4 * 86_400_000;
const pausedHint = "Set the forwarding again to resume.";

/** Judges an attempt. Never throws, whatever the receiver sent. */
export function judgeBatch({
  answer,
  failures,
  failingSinceMs,
  isPausable,
  nowMs,
  random,
}: JudgedBatch): BatchVerdict {
  const reason = reasonOf(answer);
  if (reason === null) return { kind: "taken" };
  const isUnwanted = answer.kind === "answered" && answer.status === 410;
  if (isPausable && isUnwanted) return { kind: "pause", reason: `${reason} ${pausedHint}` };
  if (isPausable && failingSinceMs !== null && nowMs - failingSinceMs >= failingMsMax) {
    return {
      kind: "pause",
      reason: `It failed for ${failingMsMax / 86_400_000} days. ${reason} ${pausedHint}`,
    };
  }
  const requestedMs = answer.kind === "answered" ? retryAfterMs(answer.retryAfter, nowMs) : 0;
  const plainMs = backoffMs(waits, failures + 1, random);
  return {
    kind: "again",
    waitMs: Math.max(plainMs, Math.min(requestedMs, retryAfterMsMax)),
    reason,
  };
}

/** Why an attempt failed, as a sentence; null when it succeeded. */
function reasonOf(answer: OutwardAnswer): string | null {
  if (answer.kind === "failed") return sentence(answer.reason);
  const { status } = answer;
  if (status >= 200 && status < 300) return null;
  if (status === 410) return "The receiver answered 410: it does not want any more entries.";
  if (status >= 300 && status < 400)
    return `The receiver answered ${status}; redirects are not followed.`;
  return `The receiver answered ${status}.`;
}

/**
 * Makes a sentence of a reason. A reason without a punctuation mark at its end is a fragment. A
 * reason may contain a resolver's text, so it is cut off, and cleaned of what PostgreSQL cannot
 * store.
 */
function sentence(reason: string): string {
  const clean = reason.replaceAll("\0", "").slice(0, 400).toWellFormed();
  return /[.!?]$/.test(clean) ? clean : `The receiver cannot be reached: ${clean}.`;
}
