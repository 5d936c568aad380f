// Counts lines in a part of a file, without reading more of a huge one than can be afforded.
import type { FileHandle } from "node:fs/promises";

type Part = { readonly from: number; readonly to: number };

/** Several times the longest line. */
const stepBytes = 256 * 1024;
const countedStepBytes = 1024 * 1024;
/** Bytes that are read to count; an app can make a sparse file of terabytes. */
const countedBytesMax = 256 * 1024 * 1024;
/** Lines per MB to count exactly; the rest is extrapolated from those. */
const countedLinesMax = 16_384;

/**
 * Offset where the last `count` lines start, and how many fewer there are; `from` when there are no
 * more.
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
    const read = buffer.subarray(0, bytesRead);
    for (let index = read.lastIndexOf(0x0a); index >= 0;) {
      if (++lines > count) return { offset: start + index + 1, left: 0 };
      index = index === 0 ? -1 : read.lastIndexOf(0x0a, index - 1);
    }
    end = start;
  }
  return { offset: from, left: count - lines };
}

/**
 * The lines up to the last newline before `to`, which is `end`. What is not read counts as one
 * line, and so does a line that does not end before `to` (`isCutting`).
 */
export async function countLines(
  handle: FileHandle,
  { from, to }: Part,
): Promise<{ readonly lines: number; readonly end: number; readonly isCutting: boolean }> {
  const buffer = Buffer.allocUnsafe(countedStepBytes);
  const first = Math.max(from, to - countedBytesMax);
  let lines = first > from ? 1 : 0;
  let end = first;
  for (let at = first; at < to;) {
    const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, to - at), at);
    if (bytesRead === 0) break;
    const read = buffer.subarray(0, bytesRead);
    lines += linesIn(read);
    const last = read.lastIndexOf(0x0a);
    if (last >= 0) end = at + last + 1;
    at += bytesRead;
  }
  if (end === first) return { lines: lines + 1, end: to, isCutting: true };
  return { lines, end, isCutting: false };
}

/**
 * Exact for lines of normal length; extrapolates for many short ones, since counting those costs as
 * much as reading them.
 */
function linesIn(bytes: Buffer): number {
  let lines = 0;
  for (let index = bytes.indexOf(0x0a); index >= 0; index = bytes.indexOf(0x0a, index + 1)) {
    if (++lines === countedLinesMax) return Math.round((lines * bytes.length) / (index + 1));
  }
  return lines;
}
