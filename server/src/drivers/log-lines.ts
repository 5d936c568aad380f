// Splits an app's output into lines and finds the run of each line. As on a terminal, the text of a
// line begins after its last carriage return. Pure.
import type { RunId } from "#lib/ids.ts";

/** Lines are truncated to this length; the rest of the line is dropped. */
const lineBytesMax = 64 * 1024;
/** The maximum number of lines in a batch, which may take a second to store. */
export const linesMax = 5_000;

/** A line of output. `runId`: the run that printed it, if known. */
export type OutputLine = { readonly runId: RunId | null; readonly text: string };

/** A line that was cut from a buffer. `end`: the position of its end in that buffer. */
export type CutLine = OutputLine & { readonly end: number };

export type Cut = {
  readonly lines: readonly CutLine[];
  /** How many bytes need not be read again; an unfinished line follows them. */
  readonly bytes: number;
  /** True when the last line was truncated, so that its rest up to the next newline is skipped. */
  readonly isCutting: boolean;
};

const newline = 0x0a;

/**
 * Cuts a buffer into lines. `isCutting`: the buffer begins with the rest of a truncated line.
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
  const addLine = (end: number): void => {
    if (!isCutting) lines.push({ ...lineOf(buffer.subarray(start, end), state.hasFrames), end });
  };
  for (let end = buffer.indexOf(newline); end >= 0; end = buffer.indexOf(newline, start)) {
    addLine(end);
    isCutting = false;
    start = end + 1;
    if (lines.length === linesMax) return { lines, bytes: start, isCutting };
  }
  let rest = buffer.length - start;
  const isFramed = state.hasFrames && buffer[start] === frameMark;
  // Drops the earlier states of a line that overwrites itself, unless the line begins with a frame,
  // which would be dropped with them.
  if (rest >= lineBytesMax && !isCutting && !isFramed) {
    rest = visibleOf(buffer.subarray(start)).length;
    start = buffer.length - rest;
  }
  const mustCut = isCutting || state.isEnd || rest >= lineBytesMax;
  if (rest > 0 && mustCut) {
    addLine(buffer.length);
    isCutting = !state.isEnd;
    start = buffer.length;
  }
  return { lines, bytes: start, isCutting };
}

/**
 * Returns the unfinished line in the bytes after the last cut, for example a progress bar or a
 * question; null when a reader would see nothing.
 */
export function unfinishedLine(rest: Buffer, hasFrames: boolean): OutputLine | null {
  const line = lineOf(rest, hasFrames);
  if (line.text.trim() === "") return null;
  const isLong = line.text.length > unfinishedLengthMax;
  return isLong ? { ...line, text: `… ${line.text.slice(-unfinishedLengthMax)}` } : line;
}

/** How soon an unfinished line is delivered, so that people see it within a second. */
export const unfinishedAfterMs = 800;
/** The length is limited because an unfinished line is delivered again whenever it has grown. */
const unfinishedLengthMax = 2_000;

/**
 * The runtime writes a line of a run as the character RS (0x1e), the run id, the character US
 * (0x1f) and the line. An empty id escapes a line outside of runs that itself begins with RS.
 */
const frameForm = /^\x1e([0-9A-Za-z_-]{0,64})\x1f/;
/** The character RS. */
const frameMark = 0x1e;
/** RS, a run id of 64 characters, and US. */
const frameBytesMax = 66;
const carriageReturn = 0x0d;

function lineOf(bytes: Buffer, hasFrames: boolean): OutputLine {
  const frame = hasFrames ? frameForm.exec(bytes.toString("latin1", 0, frameBytesMax)) : null;
  const visible = visibleOf(bytes.subarray(frame?.[0].length ?? 0));
  let end = Math.min(visible.length, lineBytesMax);
  // Do not cut inside a character: in UTF-8, all its bytes but the first begin with the bits 10.
  while (end < visible.length && end > 0 && ((visible[end] ?? 0) & 0xc0) === 0x80) end--;
  while (end > 0 && visible[end - 1] === carriageReturn) end--;
  // PostgreSQL cannot store NUL in text.
  const text = visible.toString("utf8", 0, end).replaceAll("\0", "\ufffd");
  return { runId: frame?.[1] ? (frame[1] as RunId) : null, text };
}

/** Returns the bytes after the last carriage return that other characters follow. */
function visibleOf(bytes: Buffer): Buffer {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === carriageReturn) end--;
  // There are only carriage returns, so nothing is visible.
  if (end === 0) return bytes.subarray(bytes.length);
  return bytes.subarray(bytes.lastIndexOf(carriageReturn, end - 1) + 1);
}
