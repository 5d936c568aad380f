// Finds where the newest output of a container begins, when much of its log waits to be read.
import type { Clock } from "#lib/clock.ts";
import type { LogReach } from "./log-cursor.ts";
import type { LogMessage } from "./log-frames.ts";
import { ChangeSignal, LogRequest, type LogRequestOptions } from "./log-request.ts";

type Time = Pick<LogMessage, "stream" | "time">;

/** How many of the newest messages are delivered first. */
const newestMax = 500;
/**
 * How many messages before the newest ones are read, to find the position of both streams: messages
 * stray from their order by far less.
 */
const beforeMax = 2_000;
/** How many messages to request: the newest ones, and those printed until the request arrives. */
export const newestTail = 20_000;
/** How long the engine may take to send these messages. */
const answerWaitMs = 10_000;
/** The length of a time in the engine's form, up to and including the milliseconds. */
const millisecondsLength = "2026-01-01T00:00:00.000".length;

/**
 * Returns the times of the newest messages and of some before them; fewer when the engine does not
 * answer in time.
 */
export async function newestTimes(
  options: Omit<LogRequestOptions, "onChange"> & { readonly clock: Clock },
): Promise<readonly Time[]> {
  const changes = new ChangeSignal();
  const onChange = (): void => changes.tell();
  const request = new LogRequest(
    { ...options, onChange },
    { follow: false, tail: beforeMax + newestMax },
  );
  const cancel = options.clock.after(answerWaitMs, () => request.close());
  const times: Time[] = [];
  try {
    while (!request.isEnded) {
      const messages = request.take();
      for (const { stream, time } of messages) times.push({ stream, time });
      if (messages.length === 0) await changes.next();
    }
  } finally {
    cancel();
    request.close();
  }
  return times;
}

/**
 * Returns the position before the newest messages, from which to continue. It is between two
 * milliseconds, since lines of the same millisecond keep the order in which they are stored. Null
 * when little is unread, or when a single line is longer than the newest output.
 */
export function reachOfNewest(times: readonly Time[], { reached }: LogReach): LogReach | null {
  // The latest of the messages before the newest ones.
  const [last] = times.slice(0, -newestMax).toSorted((a, b) => (a.time > b.time ? -1 : 1));
  if (last === undefined || last.time <= reached[last.stream]) return null;
  const position = `${last.time.slice(0, millisecondsLength)}999999Z`;
  // The stream's next message shows that its line at the position has ended.
  if (!times.some(({ stream, time }) => stream === last.stream && time > position)) return null;
  const later = (time: string): string => (time > position ? time : position);
  return { position, reached: { stdout: later(reached.stdout), stderr: later(reached.stderr) } };
}
