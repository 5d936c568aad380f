// Answers that are there before the body of their request has arrived, such as 413: what still
// comes of the body is read and dropped for a while. Closing a connection with unread bytes resets
// it, and the client would never see the answer.
import { finished, Readable } from "node:stream";
import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import type { Clock } from "#lib/clock.ts";

/** As nginx's `lingering_time`, and as the proxy does for calls. */
const lingerMs = 30_000;
/** After larger bodies the connection is closed. */
const smallBodyBytes = 65_536;

/** Lets answers of the instance end only when the client has sent its body, or takes too long. */
export function readUnreadBodies(api: FastifyInstance, clock: Clock): void {
  api.addHook("onSend", (request, reply, payload, done) => {
    const { raw } = request;
    if (typeof payload !== "string" || request.method === "HEAD" || !isArriving(raw))
      return done(null, payload);
    void reply.header("content-length", Buffer.byteLength(payload));
    if (!(Number(raw.headers["content-length"]) <= smallBodyBytes))
      void reply.header("connection", "close");
    return done(null, Readable.from(lingering(payload, raw, clock)));
  });
}

function isArriving(request: IncomingMessage): boolean {
  const { complete, destroyed, headers } = request;
  // Who waits for the permission to send a body gets none.
  if (complete || destroyed || headers.expect !== undefined) return false;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

async function* lingering(
  payload: string,
  request: IncomingMessage,
  clock: Clock,
): AsyncGenerator<string> {
  yield payload;
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(lingerMs, resolve);
  const forget = finished(request, () => resolve());
  request.resume();
  await promise;
  cancel();
  forget();
}
