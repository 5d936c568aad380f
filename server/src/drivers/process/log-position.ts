// The position in an output file, in memory and on disk. Pure.
import type { SkippedPart } from "./skipped-parts.ts";

/**
 * The offset up to which the file was read, and the skipped parts before it that are still to be
 * delivered.
 */
export type LogPosition = {
  readonly offset: number;
  /** True when `offset` is within a line that was truncated, whose rest is skipped. */
  readonly isCutting: boolean;
  readonly parts: readonly SkippedPart[];
  /**
   * The time of the last line that was read in order, 0 before the first; further lines have this
   * time or a later one.
   */
  readonly lastAt: number;
};

/**
 * A position as it is stored on disk. Older versions store no parts, but a `gap`: output that was
 * dropped unread. They can also read a newer position, and then ignore its parts.
 */
export type KeptPosition = Pick<LogPosition, "offset" | "isCutting"> & {
  readonly parts?: readonly SkippedPart[];
  readonly lastAt?: number;
  readonly gap: { readonly from: number; readonly to: number; readonly lines: number } | null;
};

/** The position before anything was delivered. */
export const logStart: LogPosition = { offset: 0, isCutting: false, parts: [], lastAt: 0 };

/** The position as it is written to disk. */
export function keptPosition(position: LogPosition): KeptPosition {
  return { ...position, gap: null };
}

/** The position that was read from disk. `writtenAt`: when the file was last written. */
export function positionOf(stored: KeptPosition, writtenAt: number): LogPosition {
  const { offset, isCutting, parts = [], lastAt = 0, gap } = stored;
  if (gap === null) return { offset, isCutting, parts, lastAt };
  // A gap becomes two parts: `before` has the output before it, which was not read yet, and
  // `dropped` has no bytes, only the count of the dropped lines. One millisecond is left for the
  // lines after the gap, which have a later time.
  const times = { fromAt: writtenAt - 1, toAt: writtenAt - 1 };
  const before = { ...times, from: offset, to: Math.max(offset, gap.from), isCutting, dropped: 0 };
  const dropped = { ...times, from: gap.to, to: gap.to, isCutting: false, dropped: gap.lines };
  const gapParts = [before, dropped].filter((part) => part.from < part.to || part.dropped > 0);
  return { offset: Math.max(offset, gap.to), isCutting: false, parts: gapParts, lastAt };
}
