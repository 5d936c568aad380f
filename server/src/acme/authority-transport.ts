// Sends the requests of the library acme-client, in place of its own transport, which waits for as
// long as an authority asks it to and loses the reasons of errors. Each has a deadline; what is no
// success becomes an `AuthorityError`.
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import acme from "acme-client";
import type { Clock } from "#lib/clock.ts";
import { oneLine } from "#lib/one-line.ts";
import { retryAfterMs } from "#lib/retry-after.ts";
import { AuthorityError } from "./authority.ts";

export type TransportOptions = {
  readonly clock: Clock;
  /** Authorities of TLS that are trusted instead of the usual ones, in PEM; null: none. */
  readonly trusted: string | null;
};

/** How long an answer may take. Issuing itself is asked for again and again. */
const answerMs = 30_000;
/** A chain of certificates has a few kilobytes. */
const answerBytesMax = 1_000_000;
const reasonLengthMax = 500;
const typePrefix = "urn:ietf:params:acme:error:";

/** The part of a request of the library that this file reads. */
type Sent = {
  readonly url?: string;
  readonly method?: string;
  readonly headers?: { toJSON(): unknown };
  readonly data?: unknown;
};

type Received = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
};

/** Makes the library send its requests here. It has one transport for the whole process. */
export function useTransport(options: TransportOptions): void {
  acme.axios.defaults.adapter = async (config) => {
    const received = await send(config as Sent, options);
    const data = dataOf(received);
    refuseProblems(received, data, options.clock.now());
    const { status, headers } = received;
    return { status, headers: { ...headers } as never, data, statusText: "", config };
  };
}

async function send(sent: Sent, { clock, trusted }: TransportOptions): Promise<Received> {
  const url = new URL(sent.url ?? "");
  const start = url.protocol === "https:" ? httpsRequest : httpRequest;
  const headers = { ...(sent.headers?.toJSON() as Record<string, string>) };
  const method = (sent.method ?? "get").toUpperCase();
  const request = start(url, { method, headers, ...(trusted === null ? {} : { ca: trusted }) });
  const cancel = clock.after(answerMs, () =>
    request.destroy(new Error(`no answer within ${answerMs / 1000} seconds`)),
  );
  try {
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.once("response", resolve);
      request.on("error", reject);
    });
    request.end(typeof sent.data === "string" ? sent.data : undefined);
    const response = await answered;
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of response as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > answerBytesMax) throw new Error(`an answer of more than ${answerBytesMax} bytes`);
      pieces.push(piece);
    }
    const text = Buffer.concat(pieces).toString("utf8");
    return { status: response.statusCode ?? 0, headers: response.headers, text };
  } catch (error) {
    const reason = error instanceof Error ? error.message || error.name : String(error);
    throw new AuthorityError(`the authority at ${url.host} does not answer: ${oneLine(reason)}`);
  } finally {
    cancel();
    request.destroy();
  }
}

/** The library reads JSON as an object, and a certificate as text. */
function dataOf({ text, headers }: Received): unknown {
  if (!/json/.test(headers["content-type"] ?? "")) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new AuthorityError("the authority's answer is not the JSON that it says it is");
  }
}

/** Throws for every problem, except for the one that the library repeats its request after. */
function refuseProblems({ status, headers }: Received, data: unknown, nowMs: number): void {
  if (status < 400) return;
  const { type, detail } = problemOf(data);
  if (type === "badNonce") return;
  const after = headers["retry-after"] ?? null;
  throw new AuthorityError(
    `the authority answered with ${status}: ${detail ?? type ?? "no reason"}`,
    { type, retryAfterMs: retryAfterMs(after, nowMs) },
  );
}

/** The type and the text of a problem document (RFC 7807) of an authority. */
export function problemOf(data: unknown): {
  readonly type: string | null;
  readonly detail: string | null;
} {
  const { type, detail } = (data ?? {}) as { readonly type?: unknown; readonly detail?: unknown };
  return {
    type: typeof type === "string" ? type.replace(typePrefix, "") : null,
    detail: typeof detail === "string" ? oneLine(detail).slice(0, reasonLengthMax) : null,
  };
}
