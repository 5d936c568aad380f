// Finds out why a replica ended while it worked on a call, for the caller who waits for the answer.
import type { Clock } from "#lib/clock.ts";
import type { BrokenCall, EndOfReplica } from "#scheduler/replica-ends.ts";
import type { AdmittedCall } from "./admitted-call.ts";

/**
 * Resolves with the end of the replica on which a call broke off; null when the replica does not
 * end within `waitMs`. Never rejects.
 */
export type BrokeOff = (call: BrokenCall, waitMs: number) => Promise<EndOfReplica | null>;

/**
 * How long the caller waits for the reason. The end of a process is known within milliseconds, on a
 * busy machine within a second.
 */
const reasonWaitMs = 2_000;

/** Resolves with a sentence for the caller; null when the replica does not end in time. */
export async function whyEnded(
  call: AdmittedCall,
  { brokeOff, clock }: { readonly brokeOff: BrokeOff; readonly clock: Clock },
): Promise<string | null> {
  if (call.lastSlot === null) return null;
  const { replicaId } = call.lastSlot.replica;
  const elapsedMs = clock.monotonicMs() - call.begunAtMs;
  // When the call got its slot, in milliseconds since the epoch.
  const sinceMs = clock.now() - elapsedMs;
  const end = await brokeOff({ replicaId, runId: call.about.runId, sinceMs }, reasonWaitMs);
  return end?.reasonForCaller ?? null;
}
