// Asks why the replica has ended on which a call broke off, for the caller who waits for the
// answer.
import type { Clock } from "#lib/clock.ts";
import type { BrokenCall, EndOfReplica } from "#scheduler/replica-ends.ts";
import type { AdmittedCall } from "./admitted-call.ts";

/**
 * A call broke off: resolves with why its replica has ended; null when it does not within `waitMs`.
 * Never rejects.
 */
export type BrokeOff = (call: BrokenCall, waitMs: number) => Promise<EndOfReplica | null>;

/**
 * How long the caller of a broken call waits for the reason: an exit is known within milliseconds,
 * on a busy machine within a second.
 */
const reasonWaitMs = 2_000;

/** Asks for a sentence for a caller; null when the replica does not end within a moment. */
export async function whyEnded(
  call: AdmittedCall,
  { brokeOff, clock }: { readonly brokeOff: BrokeOff; readonly clock: Clock },
): Promise<string | null> {
  if (call.lastSlot === null) return null;
  const { replicaId } = call.lastSlot.replica;
  const sinceMs = clock.now() - (clock.monotonicMs() - call.begunAtMs);
  const end = await brokeOff({ replicaId, runId: call.about.runId, sinceMs }, reasonWaitMs);
  return end?.reasonForCaller ?? null;
}
