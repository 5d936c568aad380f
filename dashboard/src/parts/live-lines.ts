// Lines that arrive by server-sent events, shown in batches: a log can bring thousands a second.
// Older ones are read when somebody scrolls up to them, however many there are; a page keeps a
// bounded number.
import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError } from "@slipway/client/client.ts";
import { whenBack } from "#connection.ts";
import { follow, messageOf } from "#api.ts";
import type { ServerEvent } from "#event-stream.ts";
import type { LogLine } from "./log-view.tsx";
import {
  noLines,
  withNewer,
  withOlder,
  type EarlierLines,
  type ShownLines,
} from "./shown-lines.ts";

/** How often new lines are shown. */
const batchMs = 100;

/** The lines, and what gets others. */
export type LiveLines = ShownLines & {
  /**
   * Reads the page of lines before these; does nothing while one is read, or where there is none.
   */
  readonly onOlder: () => void;
  /** Begins anew with the newest lines. */
  readonly onNewest: () => void;
};

type Wish = {
  readonly path: string;
  readonly lineOf: (data: unknown) => LogLine;
  /** Lines before those that are followed; `token`: those before them. */
  readonly earlier?: (signal: AbortSignal, token?: string) => Promise<EarlierLines>;
};

/** Follows `path` as long as the page is open; begins anew when it changes. */
export function useLiveLines({ path, lineOf, earlier }: Wish): LiveLines {
  const [state, setState] = useState<ShownLines>(noLines);
  const [beginning, setBeginning] = useState(0);
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    let waiting: LogLine[] = [];
    const flush = (): void => {
      if (waiting.length === 0) return;
      const more = waiting;
      waiting = [];
      setState((before) => withNewer(before, more));
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
      setState(noLines);
      const first = await earlier?.(signal);
      if (first !== undefined) setState({ ...noLines, lines: first.lines, token: first.token });
      await follow(path, { onEvent, signal, lastId: first?.lastId ?? "" });
    };
    const start = (): void => {
      run().catch((error: unknown) => {
        if (signal.aborted) return;
        setState((before) => ({ ...before, problem: messageOf(error) }));
        isUnreached = !(error instanceof ApiError);
      });
    };
    // Only what came before is not asked for again by itself.
    let isUnreached = false;
    const stopWatching = whenBack(() => {
      if (!isUnreached) return;
      isUnreached = false;
      start();
    });
    start();
    return () => {
      leaving.abort();
      stopWatching();
      clearInterval(timer);
    };
    // The functions are made anew by each render; the path says what is wanted.
  }, [path, beginning]);
  const onOlder = useOlder({ earlier, token: state.token, of: `${path} ${beginning}` }, setState);
  const onNewest = useCallback(() => setBeginning((before) => before + 1), []);
  return { ...state, onOlder, onNewest };
}

/**
 * Reads the page of lines before the first one, one page at a time; `of`: what is forgotten when it
 * changes.
 */
function useOlder(
  {
    earlier,
    token,
    of,
  }: Pick<Wish, "earlier"> & { readonly token: string | undefined; readonly of: string },
  change: (next: (before: ShownLines) => ShownLines) => void,
): () => void {
  const reading = useRef<AbortController | null>(null);
  useEffect(
    () => () => {
      reading.current?.abort();
      reading.current = null;
    },
    [of],
  );
  return () => {
    if (token === undefined || earlier === undefined || reading.current !== null) return;
    const current = new AbortController();
    reading.current = current;
    earlier(current.signal, token)
      .then((older) =>
        change((before) => (current.signal.aborted ? before : withOlder(before, older))),
      )
      .catch((error: unknown) => {
        if (!current.signal.aborted) change((before) => ({ ...before, problem: messageOf(error) }));
      })
      .finally(() => {
        if (reading.current === current) reading.current = null;
      });
  };
}
