// Where the newest output of a container begins, when much of its log waits to be read.
import type { Clock } from "#lib/clock.ts";
import type { LogReach } from "./log-cursor.ts";
import type { LogMessage } from "./log-frames.ts";
import { ChangeSignal, LogRequest, type LogRequestOptions } from "./log-request.ts";

type Time = Pick<LogMessage, "stream" | "time">;

/** So many of the newest messages come first. */
const newestMax = 500;
/**
 * So many before them tell how far both streams are: messages stray from their order by far less.
 */
const beforeMax = 2_000;
/** The newest messages, and those that are printed until they are asked for. */
export const newestTail = 20_000;
const answerWaitMs = 10_000;
/** Length of a time in the engine's form, up to and with the milliseconds. */
const millisecondsLength = "2026-01-01T00:00:00.000".length;

/**
 * The times of the newest messages and of some before them; fewer when the engine does not answer
 * in time.
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
 * The position from which to continue: before the newest messages. It is between two milliseconds,
 * since lines of the same millisecond keep the order in which they are stored. Null: only little is
 * unread, or one line is longer than all of it.
 */
export function reachOfNewest(times: readonly Time[], { reached }: LogReach): LogReach | null {
  const [last] = times.slice(0, -newestMax).toSorted((a, b) => (a.time > b.time ? -1 : 1));
  if (last === undefined || last.time <= reached[last.stream]) return null;
  const position = `${last.time.slice(0, millisecondsLength)}999999Z`;
  // Its line has ended when the stream goes on.
  if (!times.some(({ stream, time }) => stream === last.stream && time > position)) return null;
  const later = (time: string): string => (time > position ? time : position);
  return { position, reached: { stdout: later(reached.stdout), stderr: later(reached.stderr) } };
}
