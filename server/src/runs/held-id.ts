// How a replica of the cortex runtime knows the starts of runs whose answers it keeps; see runtimes/python/README.md.
import type { RunId } from "#lib/ids.ts";

/** The id of one start of a run at its replica: the run's id and the number of the start, which is never used again. */
export type HeldId = `${RunId}.${number}`;

/** Replicas read three digits. A start beyond them, which can only be one of many that came to nothing, is not held. */
export const heldStartMax = 999;

/** A start must not get the answer of the one before, nor what the platform still says of that one. */
export function heldIdOf(runId: RunId, start: number): HeldId {
  return `${runId}.${start}`;
}

/** Makes a call of the cortex runtime a held run; a header line for the replica. */
export function heldLineOf(start: number): string {
  return `Slipway-Held: ${start}\r\n`;
}
