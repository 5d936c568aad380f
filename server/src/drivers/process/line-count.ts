// Counts lines in a part of a file. When the part is huge, reads only a bounded number of bytes.
import type { FileHandle } from "node:fs/promises";

type Part = { readonly from: number; readonly to: number };

/** The bytes per read while the start of the last lines is searched. */
const stepBytes = 256 * 1024;
/** The bytes per read while lines are counted. */
const countedStepBytes = 1024 * 1024;
/** The maximum number of bytes that are counted; an app can make a sparse file of terabytes. */
const countedBytesMax = 256 * 1024 * 1024;
/** The maximum number of lines counted one by one in each read; more are extrapolated. */
const countedLinesMax = 16_384;
/** The byte that ends a line. */
const newline = 0x0a;

/**
 * The offset where the last `count` lines start. When there are fewer, it is `from`, and `left`
 * says how many are missing. Newlines are counted from the end: since the last line ends with one
 * too, the lines start after newline number `count` + 1.
 */
export async function startOfLast(
  handle: FileHandle,
  count: number,
  { from, to }: Part,
): Promise<{ readonly offset: number; readonly left: number }> {
  if (count <= 0) return { offset: to, left: 0 };
  const buffer = Buffer.allocUnsafe(stepBytes);
  let lines = 0;
  for (let end = to; end > from;) {
    const start = Math.max(from, end - buffer.length);
    const { bytesRead } = await handle.read(buffer, 0, end - start, start);
    const chunk = buffer.subarray(0, bytesRead);
    for (let index = chunk.lastIndexOf(newline); index >= 0;) {
      lines++;
      if (lines > count) return { offset: start + index + 1, left: 0 };
      // A negative offset would count from the end of the chunk.
      index = index === 0 ? -1 : chunk.lastIndexOf(newline, index - 1);
    }
    end = start;
  }
  return { offset: from, left: count - lines };
}

/**
 * Counts the lines up to the last newline before `to`; `end` is the offset after that newline. The
 * bytes at the beginning that are too many to be read count as one line. When the bytes that are
 * read have no newline, they count as one line that does not end before `to` (`isCutting`).
 */
export async function countLines(
  handle: FileHandle,
  { from, to }: Part,
): Promise<{ readonly lines: number; readonly end: number; readonly isCutting: boolean }> {
  const buffer = Buffer.allocUnsafe(countedStepBytes);
  // The offset of the first byte that is read.
  const first = Math.max(from, to - countedBytesMax);
  // The part before `first` is not read.
  let lines = first > from ? 1 : 0;
  let end = first;
  for (let position = first; position < to;) {
    const length = Math.min(buffer.length, to - position);
    const { bytesRead } = await handle.read(buffer, 0, length, position);
    if (bytesRead === 0) break;
    const chunk = buffer.subarray(0, bytesRead);
    lines += linesIn(chunk);
    const last = chunk.lastIndexOf(newline);
    if (last >= 0) end = position + last + 1;
    position += bytesRead;
  }
  if (end === first) return { lines: lines + 1, end: to, isCutting: true };
  return { lines, end, isCutting: false };
}

/**
 * The number of lines. It is exact for lines of normal length, and extrapolated when there are many
 * short ones, since counting all of them takes long.
 */
function linesIn(bytes: Buffer): number {
  let lines = 0;
  for (let index = bytes.indexOf(newline); index >= 0; index = bytes.indexOf(newline, index + 1)) {
    lines++;
    if (lines === countedLinesMax) return Math.round((lines * bytes.length) / (index + 1));
  }
  return lines;
}
