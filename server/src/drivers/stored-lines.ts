// Hands lines of a replica to the sink until they are stored, for all drivers.
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import type { ReplicaLine, ReplicaSink } from "./driver.ts";

/**
 * Lines are dropped after these attempts, so that a replica's end is reported and it can be
 * forgotten.
 */
const storing: RetryPolicy = { firstMs: 100, factor: 3, msMax: 5000, jitter: 0.2, triesMax: 6 };

/** While output was written longer ago than this, newer output comes first. */
export const inOrderMs = 2_000;

/** The line in place of dropped ones; null: nobody knows how many. */
export function droppedText(count: number | null): string {
  const lines = count === null ? "Lines" : `${count} lines`;
  return `[slipway] ${lines} were dropped here: the app wrote faster than its lines can be stored.`;
}

/** What delivers the output of one replica. */
export type OutputOptions = {
  readonly replicaId: ReplicaId;
  readonly hasFrames: boolean;
  /** Resolves when stored. */
  readonly lines: ReplicaSink["lines"];
  readonly clock: Clock;
  /** Reading failed (a full disk, or an engine that restarts); another try follows. */
  readonly onFault: (error: unknown) => void;
};

/** False when `signal` was aborted before the lines were stored: they will be read again. */
export async function storeLines(
  given: readonly ReplicaLine[],
  {
    lines,
    clock,
    signal,
  }: Pick<OutputOptions, "lines" | "clock"> & { readonly signal: AbortSignal },
): Promise<boolean> {
  // The sink reports its own errors; here it only matters that lines are not lost at once.
  const options = { ...storing, clock, signal, onFailure: () => undefined };
  return (await retry(options, () => lines(given).then(() => true))) ?? !signal.aborted;
}
