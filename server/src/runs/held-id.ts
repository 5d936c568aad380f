// How a replica of the cortex runtime identifies the starts of held runs; see
// runtimes/python/README.md.
import type { RunId } from "#lib/ids.ts";

/**
 * The id of one start of a run at its replica: the run's id and the number of the start, which is
 * never reused.
 */
export type HeldId = `${RunId}.${number}`;

/**
 * Replicas read three digits. A start with a higher number, which requires many starts that were
 * taken back, is not held.
 */
export const heldStartMax = 999;

/**
 * The id differs for each start, which must not get the answer of an earlier start, nor late
 * messages about it.
 */
export function heldIdOf(runId: RunId, start: number): HeldId {
  return `${runId}.${start}`;
}

/** The header line that makes a call of the cortex runtime a held run. */
export function heldLineOf(start: number): string {
  return `Slipway-Held: ${start}\r\n`;
}
