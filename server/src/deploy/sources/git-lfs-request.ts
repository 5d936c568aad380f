// One request to a Git LFS server: over the guarded connections of the caller, without redirects,
// with a bound on silence.
import { request as httpRequest, type Agent, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { OutwardRefused } from "#lib/outward-reasons.ts";

type OutgoingRequest = {
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly agent: Agent;
  readonly signal: AbortSignal;
};

/** A connection on which nothing arrives for this long is given up. */
const silenceMs = 60_000;

/** Resolves to the answer when its head has arrived; rejects when the request fails before. */
export function sendRequest(
  url: URL,
  { body, headers, ...options }: OutgoingRequest,
): Promise<IncomingMessage> {
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  const length =
    options.method === "GET" ? {} : { "Content-Length": String(Buffer.byteLength(body)) };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = send(url, {
    ...options,
    headers: { ...headers, ...length, "User-Agent": "Slipway" },
  });
  request.setTimeout(silenceMs, () =>
    request.destroy(new OutwardRefused(`nothing arrived for ${silenceMs / 1000} s`)),
  );
  request.on("response", resolve);
  request.on("error", reject);
  // This also ends a request whose host switches to another protocol instead of answering.
  request.on("close", () =>
    reject(new OutwardRefused("the connection was closed without an answer")),
  );
  request.end(body);
  return promise;
}

/** True for an answer that redirects to another address. */
export function isRedirect({ statusCode = 0, headers }: IncomingMessage): boolean {
  return [301, 302, 303, 307, 308].includes(statusCode) && headers.location !== undefined;
}
