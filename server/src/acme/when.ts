// Decides when a certificate is requested again, and when the operator is warned. Pure.
import { backoffMs, type Backoff } from "#lib/backoff.ts";

/**
 * Waits after failed tries: 5 minutes, then longer, up to 6 hours. Let's Encrypt allows five failed
 * proofs of a name in an hour.
 */
const tries: Backoff = { firstMs: 300_000, factor: 3, msMax: 21_600_000, jitter: 0.2 };
/** An authority that says no more than "too many" is asked again after this time. */
const rateLimitMs = 3_600_000;
/** The longest wait that an authority can demand. */
const retryAfterMsMax = 7 * 86_400_000;

/**
 * When a certificate is renewed: when a third of its life is left, and up to a thirtieth of its
 * life earlier by chance, so that certificates of the same day are not all renewed at once.
 */
export function renewalMs(
  { beginsAtMs, endsAtMs }: { readonly beginsAtMs: number; readonly endsAtMs: number },
  random: number,
): number {
  const lifeMs = endsAtMs - beginsAtMs;
  return Math.round(endsAtMs - lifeMs / 3 - (random * lifeMs) / 30);
}

/** How long to wait after failed try number `failures` (from 1). */
export function nextTryMs(
  failure: {
    readonly failures: number;
    readonly isRateLimited: boolean;
    readonly retryAfterMs: number;
  },
  random: number,
): number {
  const { failures, isRateLimited, retryAfterMs } = failure;
  const least = isRateLimited && retryAfterMs === 0 ? rateLimitMs : retryAfterMs;
  return Math.max(backoffMs(tries, failures, random), Math.min(least, retryAfterMsMax));
}

const dayMs = 86_400_000;
/** The operator is warned in the last three weeks, or in the last quarter of a shorter life. */
const soonMs = 21 * dayMs;

/** Whether the operator is to be warned that a certificate ends, and could not be renewed. */
export function isToWarn(
  certificate: {
    readonly beginsAtMs: number;
    readonly endsAtMs: number;
    readonly failures: number;
    /** When the operator was warned last; null: never. */
    readonly warnedAtMs: number | null;
  },
  nowMs: number,
): boolean {
  const { beginsAtMs, endsAtMs, failures, warnedAtMs } = certificate;
  const isSoon = endsAtMs - nowMs < Math.min(soonMs, (endsAtMs - beginsAtMs) / 4);
  return failures > 0 && isSoon && (warnedAtMs === null || nowMs - warnedAtMs >= dayMs);
}
