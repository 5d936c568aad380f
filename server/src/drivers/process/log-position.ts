// How far an output file was read, in memory and on disk. Pure.
import type { SkippedPart } from "./skipped-parts.ts";

/** How far the file was delivered, and what before that is still to be. */
export type LogPosition = {
  readonly offset: number;
  readonly isCutting: boolean;
  readonly parts: readonly SkippedPart[];
  /**
   * The time of the last line that was read in order, 0 before it; later lines have this time or a
   * later one.
   */
  readonly lastAt: number;
};

/**
 * A position as it is stored on disk, also by older versions, which have no parts but a `gap`: what
 * was dropped unread. They may read it again, and leave out the parts then.
 */
export type KeptPosition = Pick<LogPosition, "offset" | "isCutting"> & {
  readonly parts?: readonly SkippedPart[];
  readonly lastAt?: number;
  readonly gap: { readonly from: number; readonly to: number; readonly lines: number } | null;
};

/** The position before anything was delivered. */
export const logStart: LogPosition = { offset: 0, isCutting: false, parts: [], lastAt: 0 };

/** What is written to disk. */
export function keptPosition(position: LogPosition): KeptPosition {
  return { ...position, gap: null };
}

/** `at`: when the file was last written. */
export function positionOf(kept: KeptPosition, at: number): LogPosition {
  const { offset, isCutting, parts = [], lastAt = 0, gap } = kept;
  if (gap === null) return { offset, isCutting, parts, lastAt };
  const times = { fromAt: at - 1, toAt: at - 1 };
  const before = { ...times, from: offset, to: Math.max(offset, gap.from), isCutting, dropped: 0 };
  const dropped = { ...times, from: gap.to, to: gap.to, isCutting: false, dropped: gap.lines };
  const both = [before, dropped].filter((part) => part.from < part.to || part.dropped > 0);
  return { offset: Math.max(offset, gap.to), isCutting: false, parts: both, lastAt };
}
