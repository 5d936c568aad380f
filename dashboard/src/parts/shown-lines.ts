// Which lines of a log a page holds: new ones are added at the end, older ones at the beginning,
// and beyond a bound those at the other end are dropped. Pure.
import type { LogLine } from "./log-view.tsx";

/**
 * A page keeps so many lines: older ones of a page that is open for long are dropped, newer ones
 * for whoever reads far back.
 */
export const linesMax = 20_000;

/** A page of lines, oldest first. */
export type EarlierLines = {
  readonly lines: readonly LogLine[];
  /** The id to go on after; "" where no line is. */
  readonly lastId: string;
  /** Asks for the page before this one; undefined: there is none. */
  readonly token: string | undefined;
};

/** The lines that a page holds, and how they came. */
export type ShownLines = {
  readonly lines: readonly LogLine[];
  /**
   * So many lines more are before the first one than when the page was opened; negative: so many
   * were dropped there.
   */
  readonly added: number;
  /** The token of the lines before these. */
  readonly token: string | undefined;
  /** The newest lines were dropped, because somebody reads old ones. */
  readonly isCut: boolean;
  readonly problem: string;
  /** The data of the event that ended the log. */
  readonly end: unknown;
};

/** Before anything has come. */
export const noLines: ShownLines = {
  lines: [],
  added: 0,
  token: undefined,
  isCut: false,
  problem: "",
  end: undefined,
};

/** The lines and those that have come. */
export function withNewer(state: ShownLines, more: readonly LogLine[]): ShownLines {
  if (state.isCut) return state;
  const all = [...state.lines, ...more];
  const dropped = Math.max(0, all.length - linesMax);
  return {
    ...state,
    lines: all.slice(dropped),
    added: state.added - dropped,
    ...(dropped > 0 ? droppedFirst : {}),
  };
}

/** What was dropped at the beginning is not read again: its page is not known any more. */
const droppedFirst = { token: undefined };

/** The lines and a page of those before them. */
export function withOlder(state: ShownLines, { lines, token }: EarlierLines): ShownLines {
  const all = [...lines, ...state.lines];
  const isCut = state.isCut || all.length > linesMax;
  return {
    ...state,
    lines: all.slice(0, linesMax),
    added: state.added + lines.length,
    token,
    isCut,
  };
}
