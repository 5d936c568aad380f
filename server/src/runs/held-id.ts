// How a replica of the cortex runtime identifies the starts of held runs; see
// runtimes/python/README.md.
import type { RunId } from "#lib/ids.ts";

/**
 * The id of one start of a run at its replica: the run's id and the number of the start, which is
 * never reused.
 */
export type HeldId = `${RunId}.${number}`;

/**
 * Replicas read up to three digits. A start with a higher number is not held; a run gets that far
 * only after hundreds of starts that did not happen.
 */
export const heldStartMax = 999;

/**
 * Each start has an id of its own, so that a start never gets the answer of an earlier one, nor a
 * late message about it.
 */
export function heldIdOf(runId: RunId, start: number): HeldId {
  return `${runId}.${start}`;
}

/** The header line that makes a call of the cortex runtime a held run. */
export function heldLineOf(start: number): string {
  return `Slipway-Held: ${start}\r\n`;
}
