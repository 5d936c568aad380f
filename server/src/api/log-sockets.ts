// Live logs over WebSockets, as published clients read them: `/ws-build-logs` and `/ws-logs`, with
// the token in the query. Each is a followed log of the management API, asked for in the caller's
// name: the same routes decide who may read it.
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

/** What a client has asked for: messages of lines that are there, then those of a followed log. */
type Source = {
  readonly before: AsyncIterable<object>;
  readonly events: Readable;
  /** Null: this line is not wanted. */
  readonly messageOf: (line: Line) => object | null;
  /** Ends the request. */
  readonly end: () => void;
};

const paths = { build: "/ws-build-logs", app: "/ws-logs" };
/** Clients send nothing but pings. */
const messageBytesMax = 1024;
/** A client that does not answer a ping within this time is gone. */
const pingEveryMs = 30_000;
const pageSize = 1000;
const refusalBytesMax = 10_000;

/** True when a WebSocket with this path and query is one of these. */
export function isLogSocket(url: string): boolean {
  const path = url.split("?", 1)[0]?.replace(/^\/+/, "/");
  return path === paths.build || path === paths.app;
}

/** Refused with the status and the message of the API. */
class SocketRefused extends Error {
  readonly status: number;
  /** JSON. */
  readonly body: string;

  constructor(status: number, body: string) {
    super(body);
    this.status = status;
    this.body = body;
  }
}

/** Takes the requests for which `isLogSocket` is true. They end with the API. */
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

  /** Never throws. */
  take(request: IncomingMessage, socket: Duplex, firstBytes: Buffer): void {
    socket.on("error", () => undefined);
    this.#open(request).then(
      (source) => {
        if (socket.destroyed) return source.end();
        // Also when the rest of the handshake is refused.
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
    const { pathname, searchParams: query } = new URL(
      (request.url ?? "/").replace(/^\/+/, "/"),
      "http://platform",
    );
    const after = afterOf(query.get("after"));
    const project = query.get("projectID") ?? "";
    const ask = (path: string, options: { readonly lastId?: number } = {}) =>
      this.#ask(request, query, path, options);
    if (pathname === paths.app) return await this.#openApp(query, { project, after, ask });
    const build = query.get("buildID") ?? "";
    const app = uuidForm.test(build)
      ? await this.#parts.builds.appOf(project as ProjectId, build as BuildId)
      : null;
    const { response, end } = await ask(
      `${pathOf(project, app ?? "unknown")}/builds/${encodeURIComponent(build)}/logs?follow=true`,
    );
    return {
      before: nothing(),
      events: response,
      messageOf: (line) =>
        Date.parse(String(line["createdAt"])) < after
          ? null
          : {
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
            },
      end,
    };
  }

  async #openApp(
    query: URLSearchParams,
    {
      project,
      after,
      ask,
    }: { readonly project: string; readonly after: number; readonly ask: Ask },
  ): Promise<Source> {
    const path = `${pathOf(project, query.get("appID") ?? "")}/logs`;
    const filter = new URLSearchParams();
    for (const [name, given] of [
      ["container", query.get("containerID")],
      ["runId", query.get("runID")],
    ] as const)
      if (given !== null && given !== "") filter.set(name, given);
    const pageOf = async (
      more: Record<string, string>,
    ): Promise<{ logs: Line[]; nextPageToken?: string }> => {
      const { response } = await ask(
        `${path}?${new URLSearchParams({ ...Object.fromEntries(filter), ...more }).toString()}`,
      );
      return JSON.parse(await textOf(response, Number.POSITIVE_INFINITY)) as { logs: Line[] };
    };
    // Of all lines, not only the wanted ones: a wanted line that is stored meanwhile would belong
    // to neither part.
    const newestPage = await ask(`${path}?direction=backward&pageSize=1`);
    const newest = JSON.parse(await textOf(newestPage.response, Number.POSITIVE_INFINITY)) as {
      logs: Line[];
    };
    const lastId = Number(newest.logs[0]?.["lineNumber"] ?? 0);
    const follow = new URLSearchParams(filter);
    follow.set("follow", "true");
    const { response, end } = await ask(`${path}?${follow.toString()}`, { lastId });
    const messageOf = (line: Line): object => ({
      app_id: line["appId"],
      run_id: line["runId"] ?? "",
      timestamp: ownTime(line),
      container_name: line["containerName"],
      log: line["logLine"],
    });
    async function* before(): AsyncGenerator<object> {
      if (lastId === 0 || !Number.isFinite(after)) return;
      const since = { afterDate: new Date(after).toISOString(), pageSize: String(pageSize) };
      for (let token = ""; ;) {
        const page = await pageOf({ ...since, nextToken: token });
        for (const line of page.logs)
          if (Number(line["lineNumber"]) <= lastId) yield messageOf(line);
        if (page.nextPageToken === undefined) return;
        token = page.nextPageToken;
      }
    }
    return { before: before(), events: response, messageOf, end };
  }

  /** Asks the API in the caller's name. */
  async #ask(
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
      throw new SocketRefused(answer.statusCode, await textOf(response, refusalBytesMax));
    return { response, end: () => void answer.raw.res.destroy() };
  }

  async #send(client: WebSocket, { before, events, messageOf, end }: Source): Promise<void> {
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
      for await (const message of before) await send(message);
      for await (const { event, data } of eventsIn(events)) {
        if (event === "end") return client.close(1000);
        const message = messageOf(data);
        if (message !== null) await send(message);
      }
      // The platform stops, or the right to read is gone.
      client.close(1001);
    } catch (error) {
      if (client.readyState === client.OPEN) {
        this.#parts.log.error({ err: error }, "a live log over a WebSocket broke");
        client.close(1011);
      }
    }
  }

  /** Ends a client that is gone. Returns what stops it. */
  #ping(client: WebSocket): () => void {
    const { clock } = this.#parts;
    let isAlive = true;
    let cancel = (): void => undefined;
    const turn = (): void => {
      if (!isAlive) return client.terminate();
      isAlive = false;
      client.ping();
      cancel = clock.after(pingEveryMs, turn);
    };
    cancel = clock.after(pingEveryMs, turn);
    client.on("pong", () => (isAlive = true));
    return () => cancel();
  }

  #refuse(socket: Duplex, error: unknown): void {
    const fault =
      error instanceof Fault ? error : new Fault("internal", "The platform's log has the reason.");
    if (!(error instanceof SocketRefused || error instanceof Fault))
      this.#parts.log.error({ err: error }, "a live log over a WebSocket could not be opened");
    const own = {
      status: faultTable[fault.code].status,
      body: JSON.stringify({ message: fault.message }),
    };
    const { status, body } = error instanceof SocketRefused ? error : own;
    const head = `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n`;
    // Nobody reads what the client still sends, so its end would not be seen.
    socket.once("finish", () => socket.destroy());
    socket.end(head + body);
  }
}

type Ask = (
  path: string,
  options?: { readonly lastId?: number },
) => Promise<{ readonly response: Readable; readonly end: () => void }>;

function pathOf(project: string, app: string): string {
  return `/v2/projects/${encodeURIComponent(project)}/apps/${encodeURIComponent(app)}`;
}

/** In milliseconds; without one, from now on. */
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
 * The time of a line with its number below the millisecond: clients take lines of one app, run and
 * time for the same line.
 */
function ownTime(line: Line): string {
  const number = Number(line["lineNumber"]) % 1_000_000;
  return String(line["timestamp"]).replace(/Z$/, `${String(number).padStart(6, "0")}Z`);
}

async function* nothing(): AsyncGenerator<object> {}

async function textOf(stream: Readable, charactersMax: number): Promise<string> {
  let text = "";
  for await (const part of stream.setEncoding("utf8")) {
    text += part as string;
    if (text.length > charactersMax) break;
  }
  return text;
}

async function* eventsIn(
  stream: Readable,
): AsyncGenerator<{ readonly event: string; readonly data: Line }> {
  let text = "";
  for await (const part of stream.setEncoding("utf8")) {
    const blocks = (text + (part as string)).split("\n\n");
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
