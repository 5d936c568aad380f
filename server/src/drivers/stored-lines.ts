// Gives lines of a replica to the sink, which stores them, and retries when that fails. Used by all
// drivers.
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import type { ReplicaLine, ReplicaSink } from "./driver.ts";

/**
 * When all these attempts have failed, the lines are dropped, since the end of a replica is
 * reported only when all its lines are stored or dropped.
 */
const storing: RetryPolicy = { firstMs: 100, factor: 3, msMax: 5000, jitter: 0.2, triesMax: 6 };

/** Output that has waited longer than this to be stored is skipped in favour of newer output. */
export const inOrderMs = 2_000;

/** The text of the line that replaces `count` dropped lines; null: an unknown number. */
export function droppedText(count: number | null): string {
  let dropped = "Lines were";
  if (count !== null) dropped = count === 1 ? "1 line was" : `${count} lines were`;
  return `[slipway] ${dropped} dropped here: the app wrote faster than its lines could be stored.`;
}

/** What a driver's reader of the output of one replica needs. */
export type OutputOptions = {
  readonly replicaId: ReplicaId;
  /** True for the cortex runtime, which marks the lines of runs. */
  readonly hasFrames: boolean;
  /** Takes lines, and resolves when they are stored. */
  readonly lines: ReplicaSink["lines"];
  readonly clock: Clock;
  /** Called when reading failed, as with a full disk or while an engine restarts; it is retried. */
  readonly onFault: (error: unknown) => void;
};

/** Resolves with false when the signal was aborted first; the lines will then be read again. */
export async function storeLines(
  lines: readonly ReplicaLine[],
  output: Pick<OutputOptions, "lines" | "clock"> & { readonly signal: AbortSignal },
): Promise<boolean> {
  const { clock, signal } = output;
  // The sink logs its own errors.
  const options = { ...storing, clock, signal, onFailure: () => undefined };
  const isStored = await retry(options, () => output.lines(lines).then(() => true));
  // The result is undefined after an abort, and also when all attempts have failed: the lines are
  // then dropped, and not read again.
  return isStored ?? !signal.aborted;
}
