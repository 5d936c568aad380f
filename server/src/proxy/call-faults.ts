// The faults that calls of every kind can end with.
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Live } from "./admitted-call.ts";

/** It waited too long for a place. */
export function lineTimeout(): Fault {
  return new Fault("line_timeout", "No replica of the app had a free slot for the call within the wait timeout.");
}

/** The app took too long. */
export function callTimeout({ settings }: Live): Fault {
  const seconds = settings.responseGracePeriodSeconds;
  return new Fault("call_timeout", `The app did not answer within responseGracePeriodSeconds (${seconds} s).`);
}

/** A run's call: its keeper's memory may be slow, which is not the app's fault. */
export function notStarted(): Fault {
  return new Fault("unavailable", "The start of the run could not be recorded in time.");
}

/** The replica broke off or made no sense; `reason` is the rest of a sentence, without addresses. */
export function replicaFailed(runId: RunId, reason: string): Fault {
  const message = `The app's replica failed: ${reason}. Check the app's log for the run ${runId}; the app may have crashed.`;
  return new Fault("replica_failed", message);
}

/** The body of a plain call is longer than the limit. */
export function tooLarge(bytesMax: number): Fault {
  return new Fault("too_large", `The body is larger than ${bytesMax} bytes (SLIPWAY_BODY_LIMIT_MB).`);
}

/** The body of a call with `async=true` is longer than the limit. */
export function asyncTooLarge(bytesMax: number): Fault {
  const message = `The body is larger than ${bytesMax} bytes, the limit with async=true (SLIPWAY_ASYNC_BODY_LIMIT_MB).`;
  return new Fault("too_large", message);
}

/** No calls are taken any more. */
export function stopping(): Fault {
  return new Fault("unavailable", "The platform is stopping.", { retryAfterSeconds: stoppingRetrySeconds });
}

/** A restart takes a few seconds. */
const stoppingRetrySeconds = 5;

/** A bug, or a part of the platform that failed; the log has more under the id. */
export function internal(runId: RunId, cause: unknown): Fault {
  return new Fault("internal", `Internal error of the platform; its log has the reason under ${runId}.`, { cause });
}

/** The app's runtime speaks no WebSocket. */
export function noWebSocket(appName: string): Fault {
  return new Fault("invalid", `WebSockets need an app with runtime "custom"; ${appName} has runtime "cortex".`);
}

/** `what`: the parameter that asks for something that only plain calls have. */
export function notForSockets(what: string): Fault {
  return new Fault("invalid", `A WebSocket has no answer to keep or to forward: leave ${what} out.`);
}

/** `what`: the parameter that asks for a part which this platform was put together without. */
export function notTaken(what: string): Fault {
  return new Fault(
    "unavailable",
    `This platform does not take calls with ${what}; leave it out to wait for the answer.`,
  );
}
