// The faults that a caller can get: one table of codes, and the error that carries a code.
// `docs/errors.md` describes each code; a test compares it with this table in both directions.

/**
 * Every fault: its HTTP status and its meaning. `api/` and `proxy/` turn a code into the status.
 */
export const faultTable = {
  malformed: {
    status: 400,
    meaning: "The request cannot be parsed: it is not JSON, or not of the required form.",
  },
  invalid: {
    status: 400,
    meaning: "A field or parameter has a value that is not allowed; the message names it.",
  },
  unauthorized: { status: 401, meaning: "No token was sent, or it is no longer valid." },
  budget_reached: {
    status: 402,
    meaning: "A budget of the app or its project is used up for this month.",
  },
  forbidden: { status: 403, meaning: "The token is valid but does not allow this." },
  not_found: { status: 404, meaning: "There is no such thing, or it is not the caller's to see." },
  no_such_project: {
    status: 404,
    meaning: "There is no such project, or it is not the caller's to see.",
  },
  method_not_allowed: { status: 405, meaning: "The path exists, but not with this method." },
  conflict: {
    status: 409,
    meaning: "The name is taken, or the current state does not allow this.",
  },
  too_large: { status: 413, meaning: "The body is larger than the limit." },
  unsupported_media_type: {
    status: 415,
    meaning: "The body is not declared as application/json, or is compressed.",
  },
  key_reused: {
    status: 422,
    meaning: "The Idempotency-Key was used for another request within 24 hours.",
  },
  not_usable: {
    status: 422,
    meaning: "It exists, but can no longer be used, or cannot be used here.",
  },
  rate_limited: {
    status: 429,
    meaning: "Too many requests; try again after the time in Retry-After.",
  },
  internal: {
    status: 500,
    meaning:
      "An internal error of the platform; the message contains the id to look for in its log.",
  },
  replica_failed: {
    status: 502,
    meaning: "The replica broke the connection or sent an answer that is not HTTP.",
  },
  line_full: {
    status: 503,
    meaning: "Too many calls of this app are already waiting for a replica.",
  },
  start_failed: {
    status: 503,
    meaning:
      "No replica of the app could be started; the message says why, unless the app takes calls without a token.",
  },
  not_deployed: {
    status: 503,
    meaning: "The app has no release yet: its first build has not succeeded.",
  },
  app_stopped: {
    status: 503,
    meaning: "The app was stopped by a person, and waits to be started.",
  },
  unavailable: {
    status: 503,
    meaning: "The platform is stopping, or a part that it needs does not answer.",
  },
  call_timeout: {
    status: 504,
    meaning: "The app did not answer within responseGracePeriodSeconds.",
  },
  line_timeout: {
    status: 504,
    meaning: "No replica had a free slot for the call within the wait timeout.",
  },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type FaultCode = keyof typeof faultTable;

/**
 * A refusal or failure whose `message` is meant for the caller. The message contains no secrets.
 */
export class Fault extends Error {
  override readonly name = "Fault";
  readonly code: FaultCode;
  /** Seconds until a retry makes sense; becomes the Retry-After header. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: FaultCode,
    message: string,
    options: { cause?: unknown; retryAfterSeconds?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** Returns the same fault for projects that never existed, are deleted, or belong to others. */
export function noSuchProject(cause?: unknown): Fault {
  return new Fault("no_such_project", "There is no such project, or it is not yours.", { cause });
}
