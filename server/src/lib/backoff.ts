// Computes the growing waits between retries, with jitter.

export type Backoff = {
  readonly firstMs: number;
  /** How many times as long each wait is as the one before it. */
  readonly factor: number;
  /** The longest wait, before the jitter. */
  readonly msMax: number;
  /** The part of a wait by which it is made longer or shorter at most, such as 0.2. */
  readonly jitter: number;
};

/**
 * Returns the wait before retry number `attempt` (from 1): first × factor^(attempt-1), bounded,
 * ± jitter. `random` is in [0, 1).
 */
export function backoffMs(policy: Backoff, attempt: number, random: number): number {
  const plain = Math.min(policy.msMax, policy.firstMs * policy.factor ** Math.max(0, attempt - 1));
  return Math.round(plain * (1 + policy.jitter * (2 * random - 1)));
}
