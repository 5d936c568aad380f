// Splits an app's output into lines and finds the run of each line. Pure.
import type { RunId } from "#lib/ids.ts";

/** Lines are truncated to this length; the rest of the line is dropped. */
export const lineBytesMax = 64 * 1024;
/** Lines per batch; storing that many may take a second. */
const linesMax = 5_000;

/** `end`: where it ends, counted from the start of the cut bytes. */
export type CutLine = { readonly runId: RunId | null; readonly text: string; readonly end: number };

export type Cut = {
  readonly lines: readonly CutLine[];
  /** Bytes that need not be read again; an unfinished line follows them. */
  readonly bytes: number;
  /** The last line was truncated: everything up to the next newline is its rest. */
  readonly isCutting: boolean;
};

const newline = 0x0a;

/** `isEnd`: no more output follows, so an unfinished line counts as a line. `hasFrames`: the runtime marks lines of runs. */
export function cutLines(
  buffer: Buffer,
  given: { readonly isCutting: boolean; readonly isEnd: boolean; readonly hasFrames: boolean },
): Cut {
  const lines: CutLine[] = [];
  let { isCutting } = given;
  let start = 0;
  const take = (end: number): void => {
    if (!isCutting) lines.push({ ...lineOf(buffer.subarray(start, end), given.hasFrames), end });
  };
  for (let end = buffer.indexOf(newline); end >= 0; end = buffer.indexOf(newline, start)) {
    take(end);
    isCutting = false;
    start = end + 1;
    if (lines.length === linesMax) return { lines, bytes: start, isCutting };
  }
  const rest = buffer.length - start;
  if (rest > 0 && (isCutting || given.isEnd || rest >= lineBytesMax)) {
    take(buffer.length);
    isCutting = !given.isEnd;
    start = buffer.length;
  }
  return { lines, bytes: start, isCutting };
}

/**
 * RS, run id, US, line: how the runtime writes output of a run. An empty id escapes a line outside of runs that began with RS.
 */
const frameForm = /^\x1e([0-9A-Za-z_-]{0,64})\x1f/;
const carriageReturn = 0x0d;

function lineOf(bytes: Buffer, hasFrames: boolean): Omit<CutLine, "end"> {
  let end = Math.min(bytes.length, lineBytesMax);
  // Do not cut inside a character.
  while (end < bytes.length && end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  if (end === bytes.length && bytes[end - 1] === carriageReturn) end--;
  // PostgreSQL cannot store NUL in text.
  const text = bytes.toString("utf8", 0, end).replaceAll("\0", "\ufffd");
  const frame = hasFrames ? frameForm.exec(text) : null;
  if (frame === null) return { runId: null, text };
  return { runId: frame[1] ? (frame[1] as RunId) : null, text: text.slice(frame[0].length) };
}
