// The faults that calls of every kind can end with.
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Live } from "./admitted-call.ts";

/** It waited too long for a place. */
export function lineTimeout(): Fault {
  return new Fault("line_timeout", "No replica of the app had room for the call within the waiting time.");
}

/** The app took too long. */
export function callTimeout({ settings }: Live): Fault {
  const seconds = settings.responseGracePeriodSeconds;
  return new Fault("call_timeout", `The app did not answer within responseGracePeriodSeconds (${seconds} s).`);
}

/** The replica broke off or made no sense; `reason` is the rest of a sentence. */
export function replicaFailed(reason: string): Fault {
  return new Fault("replica_failed", `The app's replica failed: ${reason}.`);
}

/** The body is longer than the limit. */
export function tooLarge(bytesMax: number): Fault {
  return new Fault("too_large", `The body is larger than ${bytesMax} bytes.`);
}

/** A bug, or a part of the platform that failed; the log has more under the id. */
export function internal(runId: RunId, cause: unknown): Fault {
  return new Fault("internal", `The platform failed; its log has the reason under ${runId}.`, { cause });
}
