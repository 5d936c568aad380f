// Server-sent events over a connection that is taken over from Fastify. Heartbeats keep an idle
// connection open, a client that reads nothing is disconnected, and streams end when the platform
// stops.
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";
import { projectOf, type ApiCall } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/**
 * Sends events; the stream ends when the promise resolves. `send` takes whole events. `signal`
 * aborts when the client is gone or the platform stops.
 */
export type SendEvents = (
  send: (text: string) => Promise<void>,
  signal: AbortSignal,
) => Promise<void>;

type StreamParts = Pick<HandlerParts, "clock" | "log" | "stopping" | "followers" | "ownerKeyOf">;

/**
 * How many followers there may be in total. They are bounded, since each one queries the database
 * for as long as its client stays.
 */
const followersMax = 400;
/** How many followers there may be for the projects of one owner. */
const ownerFollowersMax = 50;
/**
 * How often a heartbeat is sent: well below the idle timeouts of common proxies (30 s and more).
 */
const heartbeatMs = 15_000;
/** A client that reads nothing for this long is disconnected. */
const drainWaitMs = 60_000;

/** True when the caller asks for live events. */
export function wantsEvents({ request, query }: ApiCall): boolean {
  if (request.method !== "GET") return false;
  return query["follow"] === true || /\btext\/event-stream\b/i.test(request.headers.accept ?? "");
}

/** Takes the connection over from Fastify, with the headers set so far. */
export function takenOver(reply: FastifyReply): ServerResponse {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  return reply.raw;
}

/** Limits how many streams run at once, in total and for the projects of one owner. */
export function followersGate(): Gate {
  return new Gate({
    max: followersMax,
    keyMax: ownerFollowersMax,
    waitingMax: 0,
    refusal: tooManyFollowers,
  });
}

function tooManyFollowers(): Fault {
  const text = `Too many logs and roll-outs are followed at once: at most ${ownerFollowersMax} of one owner's projects, and ${followersMax} in total. End one, or leave out follow.`;
  // Nobody knows when a stream ends, so the number of seconds is a guess.
  return new Fault("rate_limited", text, { retryAfterSeconds: 10 });
}

/**
 * Takes over the connection, and resolves at the end of the stream. Before it takes over, throws
 * `Fault("rate_limited")` when too many streams run, in total or for the owner of the project.
 */
export async function streamEvents(
  call: ApiCall,
  parts: StreamParts,
  sendEvents: SendEvents,
): Promise<undefined> {
  const key = await parts.ownerKeyOf(projectOf(call));
  return await parts.followers.run(() => stream(call, parts, sendEvents), { key });
}

/** Writes the stream, and logs an error. Never rejects. */
async function stream(
  call: ApiCall,
  parts: StreamParts,
  sendEvents: SendEvents,
): Promise<undefined> {
  const { request, reply } = call;
  const response = takenOver(reply);
  // The last header keeps nginx from buffering the events.
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-store",
    "x-accel-buffering": "no",
  });
  const gone = new AbortController();
  response.once("close", () => gone.abort(new Error("the client is gone")));
  const signal = AbortSignal.any([gone.signal, parts.stopping]);
  const heartbeat = startHeartbeat(response, parts.clock);
  try {
    // The first bytes tell the client that it is connected, even before the first event.
    await write(response, ": connected\n\n", signal);
    await sendEvents((text) => write(response, text, signal), signal);
  } catch (error) {
    // A `Fault` means that the caller has lost the permission; the next request tells the caller.
    if (!signal.aborted && !(error instanceof Fault))
      parts.log.error({ err: error, requestId: request.id }, "a live stream of events broke");
  } finally {
    heartbeat.stop();
    response.end();
  }
  return undefined;
}

/**
 * Writes a text, and waits until the client has read enough of what was written before. Rejects
 * when the client is gone or too slow, or the platform stops.
 */
async function write(response: ServerResponse, text: string, signal: AbortSignal): Promise<void> {
  if (signal.aborted || response.write(text)) return;
  await once(response, "drain", {
    signal: AbortSignal.any([signal, AbortSignal.timeout(drainWaitMs)]),
  });
}

function startHeartbeat(response: ServerResponse, clock: Clock): { stop(): void } {
  let cancel = (): void => undefined;
  const beat = (): void => {
    // Heartbeats for a client that reads nothing would only pile up.
    if (!response.writableNeedDrain) response.write(": still here\n\n");
    cancel = clock.after(heartbeatMs, beat);
  };
  cancel = clock.after(heartbeatMs, beat);
  return { stop: () => cancel() };
}
