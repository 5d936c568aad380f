// Lines that arrive by server-sent events, shown in batches: a log can bring thousands a second.
import { useEffect, useState } from "react";
import { follow, messageOf, type ServerEvent } from "#api.ts";
import { linesMax, type LogLine } from "./log-view.tsx";

/** So often what has arrived is shown. */
const batchMs = 100;

type LiveLines = {
  readonly lines: readonly LogLine[];
  readonly problem: string;
  /** The data of the event that ended the log. */
  readonly end: unknown;
};

type Wish = {
  readonly path: string;
  readonly lineOf: (data: unknown) => LogLine;
  /** Lines before those that are followed, and the id to go on after. */
  readonly earlier?: (signal: AbortSignal) => Promise<{ readonly lines: readonly LogLine[]; readonly lastId: string }>;
};

const none: LiveLines = { lines: [], problem: "", end: undefined };

/** Follows `path` as long as the page is open; begins anew when it changes. */
export function useLiveLines({ path, lineOf, earlier }: Wish): LiveLines {
  const [state, setState] = useState<LiveLines>(none);
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    let waiting: LogLine[] = [];
    const flush = (): void => {
      if (waiting.length === 0) return;
      const more = waiting;
      waiting = [];
      setState((before) => ({ ...before, lines: [...before.lines, ...more].slice(-linesMax) }));
    };
    const timer = setInterval(flush, batchMs);
    const onEvent = ({ event, data }: ServerEvent): void => {
      const value: unknown = JSON.parse(data);
      if (event !== "end") {
        waiting.push(lineOf(value));
        return;
      }
      flush();
      setState((before) => ({ ...before, end: value }));
    };
    const run = async (): Promise<void> => {
      setState(none);
      const { lines, lastId } = earlier === undefined ? { lines: [], lastId: "" } : await earlier(signal);
      waiting.push(...lines);
      flush();
      await follow(path, { onEvent, signal, lastId });
    };
    run().catch((error: unknown) => {
      if (!signal.aborted) setState((before) => ({ ...before, problem: messageOf(error) }));
    });
    return () => {
      leaving.abort();
      clearInterval(timer);
    };
    // The functions are made anew by each render; the path says what is wanted.
  }, [path]);
  return state;
}
