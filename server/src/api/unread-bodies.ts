// Handles answers that are ready before the body of their request has arrived, such as 413: the
// rest of the body is read and dropped for a while. Closing a connection with unread bytes would
// reset it, and the client would never see the answer.
import { finished, Readable } from "node:stream";
import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import type { Clock } from "#lib/clock.ts";

/**
 * How long the rest of a body is read: as long as by default in nginx, and as for calls of apps.
 */
const lingerMs = 30_000;
/**
 * The connection stays open after a body of at most this size, and is closed after a larger one.
 */
const smallBodyBytes = 65_536;

/** Makes answers end only when the client has sent its body, or takes too long to send it. */
export function readUnreadBodies(api: FastifyInstance, clock: Clock): void {
  api.addHook("onSend", (request, reply, payload, done) => {
    const { raw } = request;
    if (typeof payload !== "string" || request.method === "HEAD" || !isArriving(raw))
      return done(null, payload);
    void reply.header("content-length", Buffer.byteLength(payload));
    // A body without a length is not known to be small.
    const isSmall = Number(raw.headers["content-length"]) <= smallBodyBytes;
    if (!isSmall) void reply.header("connection", "close");
    return done(null, Readable.from(lingering(payload, raw, clock)));
  });
}

/** Whether the rest of the request's body is still to arrive. */
function isArriving(request: IncomingMessage): boolean {
  const { complete, destroyed, headers } = request;
  // A client that waits for `100 Continue` has got that from the listener, and sends its body.
  if (complete || destroyed) return false;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** Yields the answer, and ends when the body of the request has been read, or after `lingerMs`. */
async function* lingering(
  payload: string,
  request: IncomingMessage,
  clock: Clock,
): AsyncGenerator<string> {
  yield payload;
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(lingerMs, resolve);
  const stopListening = finished(request, () => resolve());
  request.resume();
  await promise;
  cancel();
  stopListening();
}
