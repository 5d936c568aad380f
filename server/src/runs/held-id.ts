// How a replica of the cortex runtime knows the attempts of runs whose answers it keeps; see runtimes/python/README.md.
import type { RunId } from "#lib/ids.ts";

/** The id of one attempt of a run at its replica. */
export type HeldId = `${RunId}.${number}`;

/** An attempt must not get the answer of the one before. */
export function heldIdOf(runId: RunId, attempt: number): HeldId {
  return `${runId}.${attempt}`;
}

/** Makes a call of the cortex runtime a held run; a header line for the replica. */
export function heldLineOf(attempt: number): string {
  return `Slipway-Held: ${attempt}\r\n`;
}
