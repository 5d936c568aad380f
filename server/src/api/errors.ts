// Turns every error into an answer: a fault into its status and message, known errors of Fastify
// and the database into faults, and everything else into an internal error. The cause of an
// internal error is only logged, under the id that the answer names.
import type { FastifyReply, FastifyRequest } from "fastify";
import { Fault, faultTable, noSuchProject } from "#lib/fault.ts";
import { isDiskFull, diskFullRetrySeconds, diskFullText } from "#lib/disk-full.ts";
import { errorCode } from "#lib/error-code.ts";
import type { Log } from "#lib/log.ts";

const mebibyte = 1_048_576;

/** The text that refuses a body that is not JSON. */
export const noJson = 'The body must be JSON, sent with "Content-Type: application/json".';

/**
 * The fault that the caller is answered with. The text of an internal error names the request's id,
 * by which the operator finds the cause in the log.
 */
export function faultOf(
  error: unknown,
  {
    id,
    routeOptions,
  }: Pick<FastifyRequest, "id"> & {
    readonly routeOptions: Pick<FastifyRequest["routeOptions"], "bodyLimit">;
  },
): Fault {
  if (error instanceof Fault) return error;
  const code = errorCode(error);
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    const limit = `${routeOptions.bodyLimit / mebibyte} MiB`;
    return new Fault("too_large", `The body is too large: the limit is ${limit}.`, {
      cause: error,
    });
  }
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return new Fault("unsupported_media_type", noJson, { cause: error });
  }
  if (isDeletedProject(code, error)) {
    // The project was deleted during the request: the answer is the same as a moment later.
    return noSuchProject(error);
  }
  if (isClientDisconnect(error)) {
    return new Fault("malformed", "The connection was closed before the request was complete.", {
      cause: error,
    });
  }
  if (isDatabaseUnreachable(code, error)) {
    const text = "The platform's database is not responding at the moment; try again.";
    return new Fault("unavailable", text, { cause: error, retryAfterSeconds: 1 });
  }
  if (isDiskFull(error)) {
    return new Fault("unavailable", diskFullText, {
      cause: error,
      retryAfterSeconds: diskFullRetrySeconds,
    });
  }
  if (isClientError(error)) {
    return new Fault(
      "malformed",
      "The request cannot be parsed: its path, headers or body are malformed.",
      {
        cause: error,
      },
    );
  }
  return new Fault("internal", `Internal error; see the platform's log for the id ${id}.`, {
    cause: error,
  });
}

/**
 * Sends a fault and logs failures of the platform. A fault of status 5xx without a cause is a
 * failure only if its code is `internal`: others are refusals, as when the platform is stopping.
 */
export function sendFault(fault: Fault, reply: FastifyReply, log: Log): FastifyReply {
  const { status } = faultTable[fault.code];
  const isFailure = fault.code === "internal" || fault.cause !== undefined;
  if (status >= 500 && isFailure)
    log.error({ err: fault.cause ?? fault, requestId: reply.request.id }, "a request failed");
  if (fault.retryAfterSeconds !== undefined)
    void reply.header("retry-after", String(fault.retryAfterSeconds));
  if (fault.code === "unauthorized") void reply.header("www-authenticate", "Bearer");
  // After an oversized body, Fastify sets `connection: close`. If bytes are still unread, closing
  // resets the connection, and the answer is lost, so the header is removed. It is removed only
  // where it is set: after a removal, Node does not send its own `connection: close` either, which
  // is needed when the platform stops.
  if (reply.hasHeader("connection")) void reply.removeHeader("connection");
  return reply
    .code(status)
    .type("application/json; charset=utf-8")
    .send({ message: fault.message });
}

/**
 * Whether the database refused to add something to a project because the project was deleted. 23503
 * is PostgreSQL's code for a reference to a row that is missing.
 */
function isDeletedProject(code: string, error: unknown): boolean {
  return (
    code === "23503" && (error as { readonly constraint?: unknown }).constraint === "live_project"
  );
}

/**
 * Whether the client disconnected while it sent its body. Fastify gives that error an HTTP status;
 * a reset of the connection to the database has none.
 */
function isClientDisconnect(error: unknown): boolean {
  return errorCode(error) === "ECONNRESET" && isClientError(error);
}

/**
 * Whether the database cannot be reached: connection errors of Node (refused, reset, broken, no
 * socket) and of PostgreSQL (08…: no connection; 57P0…: shutdown; 53300: too many connections), and
 * errors of the pool, which have no code.
 */
function isDatabaseUnreachable(code: string, error: unknown): boolean {
  if (/^(?:ECONNREFUSED|ECONNRESET|EPIPE|ENOENT|08\w{3}|57P0\d|53300)$/.test(code)) return true;
  return (
    error instanceof Error &&
    /^(?:Connection terminated|timeout exceeded when trying to connect)/.test(error.message)
  );
}

/** Whether Fastify has marked the error with a status for mistakes of the client. */
function isClientError(error: unknown): boolean {
  if (typeof error !== "object" || error === null || !("statusCode" in error)) return false;
  return typeof error.statusCode === "number" && error.statusCode >= 400 && error.statusCode < 500;
}
