// The faults that calls of any kind can end with.
import { changeField } from "@slipway/contract/advice.ts";
import type { AppRoute } from "#apps/routes.ts";
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Live } from "./admitted-call.ts";
import type { RequestFields } from "./request-fields.ts";

/** The call waited too long for a slot. */
export function lineTimeout(): Fault {
  return new Fault(
    "line_timeout",
    `No replica of the app had a free slot for the call within the wait timeout. Call again later, or raise maxReplicaCount or replicaConcurrency (${changeField}).`,
  );
}

/** The app exceeded its time limit. */
export function callTimeout({ settings }: Live): Fault {
  const seconds = settings.responseGracePeriodSeconds;
  return new Fault(
    "call_timeout",
    `The app did not answer within responseGracePeriodSeconds (${seconds} s). Make it answer sooner, or raise the limit (${changeField}).`,
  );
}

/**
 * The fault as the caller gets it. Callers of an app that takes calls without a token do not learn
 * why the app cannot be started, since the reason may quote its log. The record of the call has the
 * reason.
 */
export function shownToCaller(fault: Fault, { settings }: Live): Fault {
  if (fault.code !== "start_failed" || !settings.disableAuth) return fault;
  const { retryAfterSeconds } = fault;
  return new Fault(
    "start_failed",
    "The app cannot be started. Its owner finds the reason in its state and in its log.",
    retryAfterSeconds === undefined ? {} : { retryAfterSeconds },
  );
}

/** The call of a run could not begin: the database may be slow, which is not the app's fault. */
export function notStarted(): Fault {
  return new Fault("unavailable", "The start of the run could not be recorded in time.");
}

/**
 * The replica broke off or sent an invalid answer; `reason` completes a sentence and has no
 * addresses.
 */
export function replicaFailed(runId: RunId, reason: string): Fault {
  const message = `The app's replica failed: ${reason}. Check the app's log for the run ${runId}; the app may have crashed.`;
  return new Fault("replica_failed", message);
}

/** The replica ended while it worked on the call; `reason` is a sentence for callers. */
export function replicaEnded(runId: RunId, reason: string): Fault {
  return new Fault(
    "replica_failed",
    `The app's replica ended during the call. ${reason} Its log for the run ${runId} may say more.`,
  );
}

/** The app's function raised `error` when a part of its answer had been sent already. */
export function functionFailed(error: string): Fault {
  return new Fault(
    "replica_failed",
    `The app's function failed after its answer had begun: ${error}`,
  );
}

/** The fault of a run whose call the replica refused; the run is then tried again. */
export function refusedByReplica(): Fault {
  return new Fault(
    "replica_failed",
    "The app's replica was stopping, or had too many calls, and did not take this one.",
  );
}

/** The body of a plain call is longer than the limit. */
export function tooLarge(bytesMax: number): Fault {
  return new Fault(
    "too_large",
    `The body is larger than ${bytesMax} bytes (SLIPWAY_BODY_LIMIT_MB).`,
  );
}

/** The body of a call with `async=true` is longer than the limit. */
export function asyncTooLarge(bytesMax: number): Fault {
  const message = `The body is larger than ${bytesMax} bytes, the limit with async=true (SLIPWAY_ASYNC_BODY_LIMIT_MB).`;
  return new Fault("too_large", message);
}

/** The platform is stopping and takes no more calls. */
export function stopping(): Fault {
  return new Fault("unavailable", "The platform is stopping.", {
    retryAfterSeconds: stoppingRetrySeconds,
  });
}

/** After how many seconds callers should try again: a restart takes a few seconds. */
const stoppingRetrySeconds = 5;

/** A bug or a failed part of the platform; the log has the details under this id. */
export function internal(runId: RunId, cause: unknown): Fault {
  return new Fault(
    "internal",
    `Internal error of the platform; its log has the reason under ${runId}.`,
    { cause },
  );
}

/** The app's runtime does not support WebSockets. */
export function noWebSocket(appName: string): Fault {
  return new Fault(
    "invalid",
    `WebSockets need an app with runtime "custom"; ${appName} has runtime "cortex".`,
  );
}

/** `what` names the parameter of a feature that only plain calls have. */
export function notForSockets(what: string): Fault {
  return new Fault(
    "invalid",
    `A WebSocket has no answer to keep or to forward: leave ${what} out.`,
  );
}

/**
 * A function cannot read a body with a content coding, since nobody decodes it; apps with a server
 * of their own may decode it themselves. Null: there is no fault.
 */
export function codedBody(
  { live }: AppRoute,
  { contentCoding, contentLength }: RequestFields,
): Fault | null {
  if (contentCoding === undefined || contentLength === 0 || live?.settings.runtime !== "cortex")
    return null;
  // `identity` means that there is no coding.
  if (/^identity$/i.test(contentCoding)) return null;
  const isLong = contentCoding.length > 64;
  const coding = JSON.stringify(isLong ? `${contentCoding.slice(0, 64)}…` : contentCoding);
  return new Fault(
    "unsupported_media_type",
    `The body has Content-Encoding ${coding}, but functions take bodies only as they are: send it uncompressed, without Content-Encoding.`,
  );
}
