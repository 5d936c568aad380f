// HTTP client for the management API of one platform: the typed client with the caller's
// credentials, a deadline, and the platform's own message for refusals.
import { createClient, type Client } from "@slipway/client/client.ts";
import { boundedAnswer } from "./bounded-answer.ts";
import { errorMessage } from "./error-message.ts";
import type { Machine } from "./machine.ts";
import { withCommands } from "./command-advice.ts";
import { plain } from "./plain-text.ts";
import { exitCodes, misuse, Refused, type ExitCode } from "./refused.ts";
import { EventTooLarge, serverEvents, type ServerEvent } from "./server-events.ts";

/** The platform answered with a refusal. */
export class ApiRefused extends Refused {
  readonly status: number;
  /** The parsed body; undefined when it is not JSON. */
  readonly body: unknown;

  constructor(status: number, message: string, body: unknown) {
    super(message, { exitCode: codeOf(status) });
    this.status = status;
    this.body = body;
  }
}

export type Ask = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path of the API, which begins with a slash. */
  readonly path: string;
  /** Sent as JSON, or unchanged when it is a form. */
  readonly body?: object;
};

/** Returns the bearer token; `isRenewed`: the previous one was refused. Null: send none. */
export type Bearer = (isRenewed: boolean) => Promise<string | null>;

const answerMs = 30_000;
/** The platform gives a sign of life every 15 seconds. */
const silenceMs = 60_000;
/**
 * A read is retried once after a broken connection; a change is not, because it may have happened.
 */
const triesOfReads = 2;

/** One platform at `url`, which has no trailing slash. */
export class ApiClient {
  readonly url: string;
  /** Typed; its requests reject like `ask`, so that `answerOf` has an answer. */
  readonly api: Client;
  readonly #machine: Machine;
  readonly #bearer: Bearer;
  readonly #bearerHint: string;

  /** `bearerHint` is added to the message when the platform rejects the token. */
  constructor(options: {
    readonly url: string;
    readonly machine: Machine;
    readonly bearer: Bearer;
    readonly bearerHint?: string;
  }) {
    this.url = options.url;
    this.#bearerHint = options.bearerHint ?? "";
    this.#machine = options.machine;
    this.#bearer = options.bearer;
    this.api = createClient({ url: this.url, fetch: (request) => this.send(request) });
    this.api.use({ onRequest: ({ params }) => refuseDots(params.path ?? {}) });
  }

  /** The caller's token, for what is no plain request; null: there is none. */
  token(): Promise<string | null> {
    return this.#bearer(false);
  }

  /**
   * The parsed answer. Throws `ApiRefused` for a refusal, `Refused` when the platform does not
   * answer.
   */
  async ask({ method, path, body }: Ask): Promise<unknown> {
    const isForm = body instanceof URLSearchParams;
    const response = await this.send(
      new Request(this.url + path, {
        method,
        headers: body === undefined || isForm ? {} : { "content-type": "application/json" },
        ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
      }),
    );
    const text = await this.#textOf(response);
    if (text === "") return null;
    const answer = parsed(text);
    if (answer !== undefined) return answer;
    throw new Refused(
      `The server at ${this.url} is not a Slipway platform: its response is not JSON.`,
    );
  }

  /**
   * An address below the platform's own URL, which it answered, as this command reaches the
   * platform.
   */
  reached(address: string): string {
    const { pathname, search } = new URL(address);
    const at = pathname.indexOf("/v2/");
    if (at === -1)
      throw new Refused(
        `${this.url} answers with the address ${plain(address)}, which is not its own.`,
      );
    return this.url + pathname.slice(at) + search;
  }

  /** Sends a GET request; resolves with the parsed answer. */
  get(path: string): Promise<unknown> {
    return this.ask({ method: "GET", path });
  }

  /**
   * Follows the events of `path`, from the one after `lastId` on. Ends when the platform ends them;
   * throws `Refused` when the connection breaks or is silent for longer than the platform's signs
   * of life are apart.
   */
  async *events(path: string, lastId: string | null): AsyncGenerator<ServerEvent, void, undefined> {
    const headers = {
      accept: "text/event-stream",
      ...(lastId === null ? {} : { "last-event-id": lastId }),
    };
    const silence = new AbortController();
    const response = await this.send(
      new Request(this.url + path, { headers, signal: silence.signal }),
      null,
    );
    const late = setTimeout(
      () => silence.abort(new DOMException("no sign of life", "TimeoutError")),
      silenceMs,
    );
    try {
      const touched = (async function* (body: AsyncIterable<Uint8Array>) {
        for await (const part of body) {
          late.refresh();
          yield part;
        }
      })(response.body ?? ReadableStream.from<Uint8Array>([]));
      yield* serverEvents(touched);
    } catch (error) {
      if (error instanceof EventTooLarge)
        throw new Refused(`An event from ${this.url} is too large.`, { cause: error });
      throw error instanceof Refused ? error : this.#unreachable(error);
    } finally {
      clearTimeout(late);
      silence.abort();
    }
  }

  /** GETs `path`, whose answer may be of any size, and take as long as it does. */
  async download(
    path: string,
  ): Promise<{ readonly headers: Headers; readonly bytes: AsyncIterable<Uint8Array> }> {
    const { headers, body } = await this.send(new Request(this.url + path), null);
    return { headers, bytes: this.#received(body ?? ReadableStream.from<Uint8Array>([])) };
  }

  /** The parts; a connection that breaks is a refusal. */
  async *#received(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* parts;
    } catch (error) {
      throw this.#unreachable(error);
    }
  }

  /**
   * Sends a request as the caller, whose token is renewed once when it is refused. Rejects like
   * `ask`; what comes back is no refusal. `waitMs` bounds the whole answer; null: the request's own
   * signal does.
   */
  async send(request: Request, waitMs: number | null = answerMs): Promise<Response> {
    const token = await this.#bearer(false);
    try {
      return await this.#sendAs(token, request, waitMs);
    } catch (error) {
      if (!(error instanceof ApiRefused) || error.status !== 401 || token === null) throw error;
      const renewed = await this.#bearer(true);
      if (renewed === null) throw new ApiRefused(401, error.message + this.#bearerHint, error.body);
      return await this.#sendAs(renewed, request, waitMs);
    }
  }

  async #sendAs(token: string | null, request: Request, waitMs: number | null): Promise<Response> {
    const { version, system } = this.#machine;
    const headers = new Headers(request.headers);
    if (!headers.has("accept")) headers.set("accept", "application/json");
    headers.set("user-agent", `slipway/${version} (${system})`);
    headers.set("x-source", "cli");
    headers.set("x-cli-version", version);
    if (token !== null) headers.set("authorization", `Bearer ${token}`);
    for (let rest = request.method === "GET" ? triesOfReads : 1; ; rest--) {
      const signal =
        waitMs === null
          ? request.signal
          : AbortSignal.any([request.signal, AbortSignal.timeout(waitMs)]);
      try {
        // Never send a token to the target of a redirect.
        const answer = await fetch(
          new Request(request.clone(), { headers, signal, redirect: "error" }),
        );
        if (answer.ok && waitMs === null) return answer;
        const response = boundedAnswer(answer);
        if (response.ok) return response;
        const body = parsed(await this.#textOf(response));
        throw new ApiRefused(response.status, this.#refusal(response.status, body), body);
      } catch (error) {
        if (error instanceof Refused) throw error;
        if (rest <= 1) throw this.#unreachable(error, waitMs ?? answerMs);
      }
    }
  }

  async #textOf(response: Response): Promise<string> {
    try {
      return await response.text();
    } catch (error) {
      throw error instanceof Refused ? error : this.#unreachable(error);
    }
  }

  #refusal(status: number, body: unknown): string {
    const said =
      typeof body === "object" && body !== null && "message" in body ? String(body.message) : "";
    return said === ""
      ? `${this.url} answered with status ${status} and no message. Is it a Slipway platform?`
      : withCommands(plain(said));
  }

  #unreachable(error: unknown, waitMs = answerMs): Refused {
    if (error instanceof Error && error.name === "TimeoutError") {
      return new Refused(`${this.url} did not answer within ${waitMs / 1000} s.`, { cause: error });
    }
    const why = reasonOf(error);
    if (decoding.test(why)) {
      return new Refused(
        `The answer of ${this.url} is not compressed as its Content-Encoding says (${why}).`,
        {
          cause: error,
        },
      );
    }
    return new Refused(
      `${this.url} cannot be reached (${why}). Is the platform running? Is the URL correct?`,
      {
        cause: error,
      },
    );
  }
}

/** An address takes a part of dots, even an encoded one, for another place of the platform. */
function refuseDots(path: Readonly<Record<string, unknown>>): void {
  for (const part of Object.values(path)) {
    if (part === "." || part === "..") throw misuse(`"${part}" is not a name or an id.`);
  }
}

function codeOf(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCodes.denied;
  if (status === 400) return exitCodes.misused;
  return status === 404 ? exitCodes.notFound : exitCodes.failed;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The caller reports that it is not JSON.
    return undefined;
  }
}

/** Codes of gzip, brotli and zstd. */
const decoding = /^(Z_|ERR__ERROR_|ZSTD_)/;

/** fetch only reports that it failed; its cause has the reason. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  if (cause instanceof Error && "code" in cause && typeof cause.code === "string")
    return cause.code;
  return errorMessage(cause);
}
