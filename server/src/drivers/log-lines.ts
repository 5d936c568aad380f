// Splits an app's output into lines and finds the run of each line. Of a line only what follows its
// last carriage return counts, as on a terminal. Pure.
import type { RunId } from "#lib/ids.ts";

/** Lines are truncated to this length; the rest of the line is dropped. */
export const lineBytesMax = 64 * 1024;
/** Lines per batch; storing that many may take a second. */
export const linesMax = 5_000;

/** `runId`: the run that printed it, if known. */
export type OutputLine = { readonly runId: RunId | null; readonly text: string };

/** `end`: where it ends, counted from the start of the cut bytes. */
export type CutLine = OutputLine & { readonly end: number };

export type Cut = {
  readonly lines: readonly CutLine[];
  /** Bytes that need not be read again; an unfinished line follows them. */
  readonly bytes: number;
  /** The last line was truncated: everything up to the next newline is its rest. */
  readonly isCutting: boolean;
};

const newline = 0x0a;

/**
 * `isEnd`: no more output follows, so an unfinished line counts as a line. `hasFrames`: the runtime
 * marks lines of runs.
 */
export function cutLines(
  buffer: Buffer,
  state: { readonly isCutting: boolean; readonly isEnd: boolean; readonly hasFrames: boolean },
): Cut {
  const lines: CutLine[] = [];
  let { isCutting } = state;
  let start = 0;
  const take = (end: number): void => {
    if (!isCutting) lines.push({ ...lineOf(buffer.subarray(start, end), state.hasFrames), end });
  };
  for (let end = buffer.indexOf(newline); end >= 0; end = buffer.indexOf(newline, start)) {
    take(end);
    isCutting = false;
    start = end + 1;
    if (lines.length === linesMax) return { lines, bytes: start, isCutting };
  }
  let rest = buffer.length - start;
  if (rest >= lineBytesMax && !isCutting && !(state.hasFrames && buffer[start] === frameMark)) {
    // Earlier states of a line that is written again and again.
    start += rest - visibleOf(buffer.subarray(start)).length;
    rest = buffer.length - start;
  }
  if (rest > 0 && (isCutting || state.isEnd || rest >= lineBytesMax)) {
    take(buffer.length);
    isCutting = !state.isEnd;
    start = buffer.length;
  }
  return { lines, bytes: start, isCutting };
}

/**
 * The unfinished line in the bytes after the last cut, as it stands: a progress bar, or a question.
 * Null when a reader would see nothing.
 */
export function unfinishedLine(rest: Buffer, hasFrames: boolean): OutputLine | null {
  const line = lineOf(rest, hasFrames);
  if (line.text.trim() === "") return null;
  const isLong = line.text.length > unfinishedLengthMax;
  return isLong ? { ...line, text: `… ${line.text.slice(-unfinishedLengthMax)}` } : line;
}

/** How soon an unfinished line is delivered; it is to be seen within a second. */
export const unfinishedAfterMs = 800;
/** It is delivered again whenever it has grown. */
const unfinishedLengthMax = 2_000;

/**
 * RS, run id, US, line: how the runtime writes output of a run. An empty id escapes a line outside
 * of runs that began with RS.
 */
const frameForm = /^\x1e([0-9A-Za-z_-]{0,64})\x1f/;
const frameMark = 0x1e;
const frameBytesMax = 66;
const carriageReturn = 0x0d;

function lineOf(bytes: Buffer, hasFrames: boolean): OutputLine {
  const frame = hasFrames ? frameForm.exec(bytes.toString("latin1", 0, frameBytesMax)) : null;
  const visible = visibleOf(bytes.subarray(frame?.[0].length ?? 0));
  let end = Math.min(visible.length, lineBytesMax);
  // Do not cut inside a character.
  while (end < visible.length && end > 0 && ((visible[end] ?? 0) & 0xc0) === 0x80) end--;
  while (end > 0 && visible[end - 1] === carriageReturn) end--;
  // PostgreSQL cannot store NUL in text.
  const text = visible.toString("utf8", 0, end).replaceAll("\0", "\ufffd");
  return { runId: frame?.[1] ? (frame[1] as RunId) : null, text };
}

/** What follows the last carriage return that is not at the end. */
function visibleOf(bytes: Buffer): Buffer {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === carriageReturn) end--;
  return end === 0
    ? bytes.subarray(bytes.length)
    : bytes.subarray(bytes.lastIndexOf(carriageReturn, end - 1) + 1);
}
