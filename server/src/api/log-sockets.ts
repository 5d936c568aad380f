// Live logs over WebSockets, as published clients read them: `/ws-build-logs` and `/ws-logs`, with
// the token in the query. The lines come from the management API, from which this file requests a
// followed log with the client's token. So the API's routes decide who may read a log.
import type { IncomingMessage } from "node:http";
import type { Duplex, Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { WebSocketServer, type WebSocket } from "ws";
import type { Builds } from "#apps/builds.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault, faultTable } from "#lib/fault.ts";
import { uuidForm, type BuildId, type ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";

type LogSocketParts = {
  readonly api: FastifyInstance;
  readonly builds: Pick<Builds, "appOf">;
  readonly clock: Clock;
  readonly log: Log;
};

/** A line as the API sends it. */
type Line = Readonly<Record<string, unknown>>;

/** The log that a client has asked for: stored lines first, then the lines of a followed log. */
type Source = {
  /** The messages for the stored lines. */
  readonly stored: AsyncIterable<object>;
  /** The server-sent events of the followed log. */
  readonly events: Readable;
  /** The message for a line; null: the client has not asked for this line. */
  readonly messageOf: (line: Line) => object | null;
  /** Ends the request for the followed log. */
  readonly end: () => void;
};

const paths = { build: "/ws-build-logs", app: "/ws-logs" };
/** The maximum size of a client's message; clients send nothing but pings and pongs. */
const messageBytesMax = 1024;
/** A client is gone if it has not answered one ping when the next one is due. */
const pingEveryMs = 30_000;
/** The number of stored lines that one request to the API asks for. */
const pageSize = 1000;
/** The text with which the API refuses a request is read up to about this length. */
const refusalCharactersMax = 10_000;

/** Whether the URL of a WebSocket, a path with a query, is that of a live log. */
export function isLogSocket(url: string): boolean {
  const path = url.split("?", 1)[0]?.replace(/^\/+/, "/");
  return path === paths.build || path === paths.app;
}

/** The API has refused the request for a log. Has the status and the body of the API's answer. */
class SocketRefused extends Error {
  readonly status: number;
  /** The JSON that the API sent. */
  readonly body: string;

  constructor(status: number, body: string) {
    super(body);
    this.status = status;
    this.body = body;
  }
}

/** Serves the requests for which `isLogSocket` is true. Their logs end when the API stops. */
export class LogSockets {
  readonly #parts: LogSocketParts;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: messageBytesMax,
    perMessageDeflate: false,
  });

  constructor(parts: LogSocketParts) {
    this.#parts = parts;
  }

  /** Serves the request, or refuses it. Never throws. */
  take(request: IncomingMessage, socket: Duplex, firstBytes: Buffer): void {
    // An error also closes the socket, and the code below handles the close.
    socket.on("error", () => undefined);
    this.#open(request).then(
      (source) => {
        if (socket.destroyed) return source.end();
        // Covers a failed handshake too: the socket then closes, but no `client` exists.
        socket.once("close", source.end);
        this.#server.handleUpgrade(
          request,
          socket,
          firstBytes,
          (client) => void this.#send(client, source),
        );
      },
      (error: unknown) => this.#refuse(socket, error),
    );
  }

  async #open(request: IncomingMessage): Promise<Source> {
    // Several slashes at the beginning count as one: after two slashes, `URL` expects a host.
    const { pathname, searchParams: query } = new URL(
      (request.url ?? "/").replace(/^\/+/, "/"),
      "http://platform",
    );
    const after = afterOf(query.get("after"));
    const project = query.get("projectID") ?? "";
    const requestLog = (path: string, options: { readonly lastId?: number } = {}) =>
      this.#requestLog(request, query, path, options);
    if (pathname === paths.app) return await this.#openApp(query, { project, after, requestLog });
    const build = query.get("buildID") ?? "";
    const app = uuidForm.test(build)
      ? await this.#parts.builds.appOf(project as ProjectId, build as BuildId)
      : null;
    // If no app has the build, the API refuses this request, and its refusal is passed on.
    const { response, end } = await requestLog(
      `${pathOf(project, app ?? "unknown")}/builds/${encodeURIComponent(build)}/logs?follow=true`,
    );
    return {
      // The followed log of a build begins with the stored lines.
      stored: nothing(),
      events: response,
      messageOf: (line) => {
        if (Date.parse(String(line["createdAt"])) < after) return null;
        // Published clients expect all these members; the platform has no value for the empty ones.
        return {
          build_id: build,
          log_id: line["id"],
          app_id: app,
          container_id: "",
          timestamp: line["createdAt"],
          log: line["log"],
          k8s_namespace: "",
          stream: line["stream"],
          region: "",
          log_line_number: line["lineNumber"],
          stage: line["stage"],
        };
      },
      end,
    };
  }

  async #openApp(
    query: URLSearchParams,
    {
      project,
      after,
      requestLog,
    }: { readonly project: string; readonly after: number; readonly requestLog: RequestLog },
  ): Promise<Source> {
    const path = `${pathOf(project, query.get("appID") ?? "")}/logs`;
    const filter = new URLSearchParams();
    for (const [name, value] of [
      ["container", query.get("containerID")],
      ["runId", query.get("runID")],
    ] as const)
      if (value !== null && value !== "") filter.set(name, value);
    // The API limits its pages, so their text needs no limit here.
    const pageOf = async (
      page: Record<string, string>,
    ): Promise<{ logs: Line[]; nextPageToken?: string }> => {
      const { response } = await requestLog(
        `${path}?${new URLSearchParams({ ...Object.fromEntries(filter), ...page }).toString()}`,
      );
      return JSON.parse(await textOf(response, Number.POSITIVE_INFINITY)) as { logs: Line[] };
    };
    // The newest of all lines, not only of those that pass the filter, is the border between the
    // stored and the followed lines: each line is on exactly one side of it.
    const newestPage = await requestLog(`${path}?direction=backward&pageSize=1`);
    const newest = JSON.parse(await textOf(newestPage.response, Number.POSITIVE_INFINITY)) as {
      logs: Line[];
    };
    // Numbers of lines begin with 1, so 0 is before all lines.
    const lastId = Number(newest.logs[0]?.["lineNumber"] ?? 0);
    const follow = new URLSearchParams(filter);
    follow.set("follow", "true");
    const { response, end } = await requestLog(`${path}?${follow.toString()}`, { lastId });
    const messageOf = (line: Line): object => ({
      app_id: line["appId"],
      run_id: line["runId"] ?? "",
      timestamp: distinctTime(line),
      container_name: line["containerName"],
      log: line["logLine"],
    });
    async function* storedMessages(): AsyncGenerator<object> {
      // There are no stored lines, or the client has named no time from which it wants them.
      if (lastId === 0 || !Number.isFinite(after)) return;
      const since = { afterDate: new Date(after).toISOString(), pageSize: String(pageSize) };
      // The first page is requested with an empty token.
      let token = "";
      for (;;) {
        const page = await pageOf({ ...since, nextToken: token });
        for (const line of page.logs)
          if (Number(line["lineNumber"]) <= lastId) yield messageOf(line);
        if (page.nextPageToken === undefined) return;
        token = page.nextPageToken;
      }
    }
    return { stored: storedMessages(), events: response, messageOf, end };
  }

  /** Requests a log from the API with the client's token. Throws `SocketRefused`. */
  async #requestLog(
    request: IncomingMessage,
    query: URLSearchParams,
    url: string,
    { lastId }: { readonly lastId?: number },
  ): Promise<{ readonly response: Readable; readonly end: () => void }> {
    const token = query.get("token") ?? "";
    const forwarded = request.headers["x-forwarded-for"];
    const answer = await this.#parts.api.inject({
      method: "GET",
      url,
      payloadAsStream: true,
      remoteAddress: request.socket.remoteAddress ?? "",
      headers: {
        ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
        ...(forwarded === undefined ? {} : { "x-forwarded-for": forwarded }),
        ...(lastId === undefined ? {} : { "last-event-id": String(lastId) }),
      },
    });
    const response = answer.stream();
    if (answer.statusCode !== 200)
      throw new SocketRefused(answer.statusCode, await textOf(response, refusalCharactersMax));
    return { response, end: () => void answer.raw.res.destroy() };
  }

  /**
   * Sends the stored lines and then the followed ones. Closes with 1000 at the end of the log, 1001
   * when the API breaks it off, and 1011 after an error.
   */
  async #send(client: WebSocket, { stored, events, messageOf, end }: Source): Promise<void> {
    const stopPinging = this.#ping(client);
    client
      .on("error", () => undefined)
      .on("close", () => {
        stopPinging();
        end();
      });
    const send = (message: object): Promise<void> =>
      new Promise((resolve, reject) => {
        client.send(JSON.stringify(message), (error) => (error ? reject(error) : resolve()));
      });
    try {
      for await (const message of stored) await send(message);
      for await (const { event, data } of eventsIn(events)) {
        if (event === "end") return client.close(1000);
        const message = messageOf(data);
        if (message !== null) await send(message);
      }
      // The platform is stopping, or the caller may no longer read this log.
      client.close(1001);
    } catch (error) {
      if (client.readyState === client.OPEN) {
        this.#parts.log.error({ err: error }, "a live log over a WebSocket broke");
        client.close(1011);
      }
    }
  }

  /**
   * Pings the client, and disconnects it when it is gone. Returns a function that ends the pings.
   */
  #ping(client: WebSocket): () => void {
    const { clock } = this.#parts;
    let isAlive = true;
    let cancel = (): void => undefined;
    const checkClient = (): void => {
      if (!isAlive) return client.terminate();
      isAlive = false;
      client.ping();
      cancel = clock.after(pingEveryMs, checkClient);
    };
    cancel = clock.after(pingEveryMs, checkClient);
    client.on("pong", () => {
      isAlive = true;
    });
    return () => cancel();
  }

  #refuse(socket: Duplex, error: unknown): void {
    const { status, body } = this.#refusalOf(error);
    const head = [
      `HTTP/1.1 ${status} Refused`,
      "Content-Type: application/json",
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Connection: close",
    ].join("\r\n");
    // Nobody reads this socket any more, so nobody would notice that the client closes it: it is
    // destroyed as soon as the answer is written.
    socket.once("finish", () => socket.destroy());
    socket.end(`${head}\r\n\r\n${body}`);
  }

  /** Passes on a refusal of the API as it is, and makes an answer of any other error. */
  #refusalOf(error: unknown): Pick<SocketRefused, "status" | "body"> {
    if (error instanceof SocketRefused) return error;
    if (error instanceof Fault) return answerOf(error);
    this.#parts.log.error({ err: error }, "a live log over a WebSocket could not be opened");
    return answerOf(new Fault("internal", "The platform's log has the reason."));
  }
}

/** Requests the log at a path of the API; `lastId` is the id after which a followed log begins. */
type RequestLog = (
  path: string,
  options?: { readonly lastId?: number },
) => Promise<{ readonly response: Readable; readonly end: () => void }>;

function pathOf(project: string, app: string): string {
  return `/v2/projects/${encodeURIComponent(project)}/apps/${encodeURIComponent(app)}`;
}

/**
 * The time from which a client wants lines, in milliseconds. If the client names no time, it is
 * `-Infinity`: an app's log then begins with the next line, and a build's log with its first line.
 * Throws `Fault("invalid")` for a text that is no time.
 */
function afterOf(text: string | null): number {
  if (text === null || text === "") return Number.NEGATIVE_INFINITY;
  const ms = Date.parse(text);
  if (!Number.isNaN(ms)) return ms;
  throw new Fault(
    "invalid",
    `after is "${text.slice(0, 100)}", but must be a time of the form 2026-01-31T12:00:00Z (RFC 3339).`,
  );
}

/**
 * The time of a line, with the last six digits of the line's number after the milliseconds:
 * clients take two lines for the same line when app, run and time are equal.
 */
function distinctTime(line: Line): string {
  const number = Number(line["lineNumber"]) % 1_000_000;
  return String(line["timestamp"]).replace(/Z$/, `${String(number).padStart(6, "0")}Z`);
}

function answerOf({ code, message }: Fault): Pick<SocketRefused, "status" | "body"> {
  return { status: faultTable[code].status, body: JSON.stringify({ message }) };
}

/** The messages of a log that has no stored part. */
async function* nothing(): AsyncGenerator<object> {}

/** The text of a stream. Stops reading once the text is longer than `charactersMax`. */
async function textOf(stream: Readable, charactersMax: number): Promise<string> {
  let text = "";
  for await (const part of stream.setEncoding("utf8")) {
    text += part as string;
    if (text.length > charactersMax) break;
  }
  return text;
}

/**
 * The server-sent events in a stream. Leaves out events without data. An event without a name is a
 * `message`, as the standard says.
 */
async function* eventsIn(
  stream: Readable,
): AsyncGenerator<{ readonly event: string; readonly data: Line }> {
  let text = "";
  for await (const part of stream.setEncoding("utf8")) {
    const blocks = (text + (part as string)).split("\n\n");
    // The last block is incomplete: its end is still to come.
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data !== undefined)
        yield {
          event: /^event: (.*)$/m.exec(block)?.[1] ?? "message",
          data: JSON.parse(data) as Line,
        };
    }
  }
}
