// A typed client of the management API: `client.GET("/v2/projects/{project_id}/apps", { params: {
// path: { project_id } } })`. The command line, the dashboard and tests use it. It needs `fetch`,
// so it runs in Node.js and in browsers.
import createFetchClient, { type Client as FetchClient, type ClientOptions } from "openapi-fetch";
import type { Paths } from "./paths.ts";

/** With one method per HTTP method; each resolves with `{ data, error, response }`. */
export type Client = FetchClient<Paths>;

export type SlipwayClientOptions = {
  /** The URL of the platform, such as `http://127.0.0.1:7070`. */
  readonly url: string;
  /** Sent as bearer token, unless a request has a header `Authorization` of its own. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sends the requests; by default `fetch`. */
  readonly fetch?: NonNullable<ClientOptions["fetch"]>;
};

/** The platform refused a request. The message is the platform's, which says what to do. */
export class ApiError extends Error {
  readonly status: number;
  /** The parsed body; undefined when it is not JSON. */
  readonly body: unknown;

  constructor(status: number, message: string, body: unknown) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.body = body;
  }
}

/** A client of one platform. */
export function createClient({ url, token, headers, fetch }: SlipwayClientOptions): Client {
  return createFetchClient<Paths>({
    baseUrl: url.replace(/\/+$/, ""),
    headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
    ...(fetch === undefined ? {} : { fetch }),
  });
}

type Outcome<Data> =
  | { readonly data: Data; readonly error?: never; readonly response: Response }
  | { readonly data?: never; readonly error: unknown; readonly response: Response };

/** The answer of a request of the client. Throws `ApiError` when the platform refused it. */
export async function answerOf<Data>(asked: Promise<Outcome<Data>>): Promise<Data> {
  const { data, error, response } = await asked;
  if (response.ok) return data as Data;
  throw new ApiError(
    response.status,
    messageOf(error) ?? `The answer has status ${response.status}.`,
    error,
  );
}

function messageOf(body: unknown): string | null {
  const isSaid =
    typeof body === "object" &&
    body !== null &&
    "message" in body &&
    typeof body.message === "string";
  return isSaid ? String(body.message) : null;
}
