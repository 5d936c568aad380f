// Sends the requests of the library acme-client, in place of its own transport, which waits for as
// long as an authority asks it to and loses the reasons of errors. A request without success
// becomes an `AuthorityError`.
import acme from "acme-client";
import { oneLine } from "#lib/one-line.ts";
import { retryAfterMs } from "#lib/retry-after.ts";
import { AuthorityError } from "./authority.ts";
import { requestServer, type ServerRequestOptions, type ServerAnswer } from "./server-request.ts";

/** The maximum length of a reason, in characters. */
const reasonLengthMax = 500;
/** The beginning of the types of errors (RFC 8555). */
const typePrefix = "urn:ietf:params:acme:error:";

/** The part of a request of the library that this file reads. */
type LibraryRequest = {
  readonly url?: string;
  readonly method?: string;
  readonly headers?: { toJSON(): unknown };
  readonly data?: unknown;
};

/**
 * Makes the library send its requests through this file. The library has one transport for the
 * whole process.
 */
export function useTransport(options: ServerRequestOptions): void {
  acme.axios.defaults.adapter = async (config) => {
    const { url = "", method = "get", headers: given, data: body } = config as LibraryRequest;
    const sent = {
      url,
      method: method.toUpperCase(),
      headers: { ...(given?.toJSON() as Record<string, string>) },
      body: typeof body === "string" ? body : null,
    };
    const received = await requestServer(sent, options);
    const data = dataOf(received);
    refuseProblems(received, data, options.clock.now());
    const { status, headers } = received;
    return { status, headers: { ...headers } as never, data, statusText: "", config };
  };
}

/** The library reads JSON as an object, and a certificate as text. */
function dataOf({ text, headers }: ServerAnswer): unknown {
  if (!/json/.test(headers["content-type"] ?? "")) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new AuthorityError("the authority's answer is not the JSON that it says it is");
  }
}

/** Throws for every problem except `badNonce`, after which the library repeats its request. */
function refuseProblems({ status, headers }: ServerAnswer, data: unknown, nowMs: number): void {
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
