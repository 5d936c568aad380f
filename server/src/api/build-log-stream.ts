// The live log of a build as server-sent events: each line has its number as id, so that a client can resume after a lost
// connection; comments keep idle connections open; an event `end` reports how the build ended.
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Builds } from "#apps/builds.ts";
import type { BuildRef } from "#apps/build-receiver.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { Log } from "#lib/log.ts";
import type { BuildLogs } from "#logs/build-log.ts";
import { showLine } from "./show-line.ts";

export type StreamParts = {
  readonly builds: Builds;
  readonly buildLogs: Pick<BuildLogs, "follow">;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted when the platform stops. */
  readonly stopping: AbortSignal;
};

/** Well below the idle timeouts of common proxies (30 s and more). */
const heartbeatMs = 15_000;
/** A client that reads nothing for this long is disconnected. */
const drainWaitMs = 60_000;

/** Writes the stream after line `after` into a response whose head is not sent yet; resolves at the end, never rejects. */
export async function streamBuildLog(
  given: {
    readonly response: ServerResponse;
    readonly place: BuildRef;
    readonly after: number;
    readonly requestId: string;
    /** Throws `Fault` when the caller may no longer read: the stream then ends. */
    readonly admit: () => Promise<void>;
  },
  parts: StreamParts,
): Promise<void> {
  const { response, place, after, requestId, admit } = given;
  const gone = new AbortController();
  response.once("close", () => gone.abort(new Error("the client is gone")));
  const signal = AbortSignal.any([gone.signal, parts.stopping]);
  const heartbeat = startHeartbeat(response, parts.clock);
  try {
    // The first bytes tell the client that it is connected, even before the first line.
    await write(response, ": connected\n\n", signal);
    for await (const lines of parts.buildLogs.follow(place.buildId, { after, signal })) {
      await admit();
      const events = lines.map(
        (line) => `id: ${line.number}\ndata: ${JSON.stringify(showLine(place.buildId, line))}\n\n`,
      );
      await write(response, events.join(""), signal);
    }
    if (!signal.aborted) {
      const { status, reason } = await parts.builds.get(place);
      await write(response, `event: end\ndata: ${JSON.stringify({ status, reason })}\n\n`, signal);
    }
  } catch (error) {
    // A caller who has lost the right is told on the next request.
    if (!signal.aborted && !(error instanceof Fault))
      parts.log.error({ err: error, requestId }, "the live log of a build broke");
  } finally {
    heartbeat.stop();
    response.end();
  }
}

async function write(response: ServerResponse, text: string, signal: AbortSignal): Promise<void> {
  if (signal.aborted || response.write(text)) return;
  await once(response, "drain", { signal: AbortSignal.any([signal, AbortSignal.timeout(drainWaitMs)]) });
}

function startHeartbeat(response: ServerResponse, clock: Clock): { stop(): void } {
  let cancel = (): void => undefined;
  const beat = (): void => {
    if (!response.writableNeedDrain) response.write(": still here\n\n");
    cancel = clock.after(heartbeatMs, beat);
  };
  cancel = clock.after(heartbeatMs, beat);
  return { stop: () => cancel() };
}
