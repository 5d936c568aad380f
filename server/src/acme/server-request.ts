// One request to an authority or to a provider of DNS, and its whole answer. The operator's
// settings name both servers, so their addresses need no check.
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Clock } from "#lib/clock.ts";
import { oneLine } from "#lib/one-line.ts";
import { AuthorityError } from "./authority.ts";

export type ServerRequest = {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
};

export type ServerAnswer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
};

export type ServerRequestOptions = {
  readonly clock: Clock;
  /** Authorities that TLS trusts instead of the usual ones, in PEM; null: the usual ones. */
  readonly trusted: string | null;
};

/** How long an answer may take. */
const answerMs = 30_000;
/** The maximum size of an answer. A chain of certificates or a list of records is far smaller. */
const answerBytesMax = 1_000_000;

/** Sends the request. Rejects with `AuthorityError` when no whole answer arrives in time. */
export async function requestServer(
  { url, method, headers, body }: ServerRequest,
  { clock, trusted }: ServerRequestOptions,
): Promise<ServerAnswer> {
  const at = new URL(url);
  const start = at.protocol === "https:" ? httpsRequest : httpRequest;
  const request = start(at, { method, headers, ...(trusted === null ? {} : { ca: trusted }) });
  const cancel = clock.after(answerMs, () =>
    request.destroy(new Error(`no answer within ${answerMs / 1000} seconds`)),
  );
  try {
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.once("response", resolve);
      request.on("error", reject);
    });
    request.end(body ?? undefined);
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
    throw new AuthorityError(`${at.host} does not answer: ${oneLine(reason)}`);
  } finally {
    cancel();
    request.destroy();
  }
}
