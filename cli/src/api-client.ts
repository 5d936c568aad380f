// HTTP client for the management API of one platform: JSON requests and answers, a deadline, and the platform's own message
// for refusals.
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";

/** The platform answered with a refusal. */
export class ApiRefused extends Refused {
  readonly status: number;
  /** The parsed body; undefined when it is not JSON. */
  readonly body: unknown;

  constructor(status: number, message: string, body: unknown) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** A server-sent event. */
export type ServerEvent = { readonly id: string; readonly event: string; readonly data: string };

export type Ask = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Begins with a slash. */
  readonly path: string;
  /** Sent as JSON, or unchanged when it is a form. */
  readonly body?: object;
};

/** Returns the bearer token; `isRenewed`: the previous one was refused. Null: send none. */
export type Bearer = (isRenewed: boolean) => Promise<string | null>;

/** The same header value as the published clients send. */
const answerMs = 30_000;
const answerBytesMax = 50_000_000;
/** The platform gives a sign of life every 15 seconds. */
const silenceMs = 60_000;
const eventCharactersMax = 10_000_000;
/** A read is retried once after a broken connection; a change is not, because it may have happened. */
const triesOfReads = 2;

/** One platform at `url`, which has no trailing slash. */
export class ApiClient {
  readonly url: string;
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
  }

  /** The parsed answer. Throws `ApiRefused` for a refusal, `Refused` when the platform does not answer. */
  async ask(ask: Ask): Promise<unknown> {
    const token = await this.#bearer(false);
    try {
      return await this.#askAs(token, ask);
    } catch (error) {
      if (!(error instanceof ApiRefused) || error.status !== 401 || token === null) throw error;
      const renewed = await this.#bearer(true);
      if (renewed === null) throw new ApiRefused(401, error.message + this.#bearerHint, error.body);
      return await this.#askAs(renewed, ask);
    }
  }

  /** GETs `path`. */
  get(path: string): Promise<unknown> {
    return this.ask({ method: "GET", path });
  }

  /**
   * Follows the events of `path`, from the one after `lastId` on. Ends when the platform ends them; throws `Refused` when the
   * connection breaks or is silent for longer than the platform's signs of life are apart.
   */
  async *events(path: string, lastId: string | null): AsyncGenerator<ServerEvent, void, undefined> {
    const headers = { accept: "text/event-stream", ...(lastId === null ? {} : { "last-event-id": lastId }) };
    const silence = new AbortController();
    const response = await this.#open(path, headers, silence.signal);
    const late = setTimeout(() => silence.abort(new DOMException("no sign of life", "TimeoutError")), silenceMs);
    try {
      let text = "";
      for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        late.refresh();
        const blocks = (text + part).split("\n\n");
        text = blocks.pop() ?? "";
        if (text.length > eventCharactersMax) throw new Refused(`An event from ${this.url} is too large.`);
        for (const block of blocks) {
          const event = eventOf(block);
          if (event.data !== "") yield event;
        }
      }
    } catch (error) {
      throw error instanceof Refused ? error : this.#unreachable(error);
    } finally {
      clearTimeout(late);
      silence.abort();
    }
  }

  /** The answer to a GET, once it is known not to be a refusal. */
  async #open(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    for (const isRenewed of [false, true]) {
      const token = await this.#bearer(isRenewed);
      const response = await this.#send(token, { method: "GET", path }, { headers, signal });
      if (response.ok) return response;
      const body = parsed(await this.#textOf(response));
      const isRetried = response.status === 401 && !isRenewed && token !== null;
      if (!isRetried) throw new ApiRefused(response.status, this.#refusal(response.status, body), body);
    }
    throw new Refused(`The token is not accepted.${this.#bearerHint}`);
  }

  async #askAs(token: string | null, ask: Ask): Promise<unknown> {
    const response = await this.#send(token, ask);
    const text = await this.#textOf(response);
    const body = parsed(text);
    if (!response.ok) throw new ApiRefused(response.status, this.#refusal(response.status, body), body);
    if (text === "") return null;
    if (body === undefined)
      throw new Refused(`The server at ${this.url} is not a Slipway platform: its response is not JSON.`);
    return body;
  }

  /** `stream`: of an answer that goes on. */
  async #send(
    token: string | null,
    { method, path, body }: Ask,
    stream?: { readonly headers: Record<string, string>; readonly signal: AbortSignal },
  ): Promise<Response> {
    const isForm = body instanceof URLSearchParams;
    const init: RequestInit = {
      method,
      // Never send a token to the target of a redirect.
      redirect: "error",
      headers: {
        accept: "application/json",
        "user-agent": `slipway/${this.#machine.version} (${this.#machine.system})`,
        "x-source": "cli",
        "x-cli-version": this.#machine.version,
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined || isForm ? {} : { "content-type": "application/json" }),
        ...stream?.headers,
      },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    };
    for (let rest = method === "GET" ? triesOfReads : 1; ; rest--) {
      try {
        return await fetch(this.url + path, { ...init, signal: stream?.signal ?? AbortSignal.timeout(answerMs) });
      } catch (error) {
        if (rest <= 1) throw this.#unreachable(error);
      }
    }
  }

  async #textOf(response: Response): Promise<string> {
    const length = Number(response.headers.get("content-length") ?? 0);
    if (length > answerBytesMax) throw new Refused(`The response from ${this.url} is too large: ${length} bytes.`);
    try {
      return await response.text();
    } catch (error) {
      throw this.#unreachable(error);
    }
  }

  #refusal(status: number, body: unknown): string {
    const said = typeof body === "object" && body !== null && "message" in body ? String(body.message) : "";
    return said === ""
      ? `${this.url} answered with status ${status} and no message. Is it a Slipway platform?`
      : plain(said);
  }

  #unreachable(error: unknown): Refused {
    if (error instanceof Error && error.name === "TimeoutError") {
      return new Refused(`${this.url} did not answer within ${answerMs / 1000} s.`, { cause: error });
    }
    const why = reasonOf(error);
    return new Refused(`${this.url} cannot be reached (${why}). Is the platform running? Is the URL correct?`, {
      cause: error,
    });
  }
}

function eventOf(block: string): ServerEvent {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const [, name, value = ""] = /^([a-z]+): ?(.*)$/s.exec(line) ?? [];
    if (name !== undefined) fields.set(name, value);
  }
  return { id: fields.get("id") ?? "", event: fields.get("event") ?? "message", data: fields.get("data") ?? "" };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The caller reports that it is not JSON.
    return undefined;
  }
}

/** fetch only reports that it failed; its cause has the reason. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  if (cause instanceof Error && "code" in cause && typeof cause.code === "string") return cause.code;
  return cause instanceof Error ? cause.message : String(cause);
}
