// The parts of an output file that were skipped because newer output is read first. They are read
// later, when there is no newer output, the newest part first. Pure.

/** A skipped part: the bytes from `from` to before `to`. The two are equal when all were read. */
export type SkippedPart = {
  readonly from: number;
  readonly to: number;
  /** The part's lines were written evenly between these times, in milliseconds since the epoch. */
  readonly fromAt: number;
  readonly toAt: number;
  /** True when the part begins within a line that was cut, whose rest is not delivered. */
  readonly isCutting: boolean;
  /** How many lines before `from` were dropped without a note in the log so far. */
  readonly dropped: number;
};

/** How many bytes of the parts are still to be read. */
export function bytesOf(parts: readonly SkippedPart[]): number {
  return parts.reduce((sum, { from, to }) => sum + to - from, 0);
}

/** The time of a line that ends at `offset`. A later line never has an earlier time. */
export function timeAt({ from, to, fromAt, toAt }: SkippedPart, offset: number): number {
  if (to <= from) return toAt;
  const bytes = Math.min(offset, to) - from;
  const elapsedMs = ((toAt - fromAt) * bytes) / (to - from);
  return Math.floor(fromAt + elapsedMs);
}

/** The part to handle next: one with only dropped lines to note, else the newest. */
export function nextPart(parts: readonly SkippedPart[]): SkippedPart | undefined {
  return parts.find(({ from, to }) => from >= to) ?? parts.at(-1);
}

/**
 * Merges a part without bytes into the next part if that begins at the same offset. The next part
 * then has the dropped lines of both.
 */
export function joinedParts(parts: readonly SkippedPart[]): readonly SkippedPart[] {
  const all: SkippedPart[] = [];
  for (const part of parts) {
    const last = all.at(-1);
    if (last !== undefined && last.from >= last.to && last.to === part.from) {
      all.pop();
      all.push({ ...part, dropped: part.dropped + last.dropped });
    } else {
      all.push(part);
    }
  }
  return all;
}

/**
 * The part after it was read up to `offset`, and after `read.dropped` lines were noted in the log.
 * Null: nothing of it is left.
 */
export function readUpTo(
  part: SkippedPart,
  offset: number,
  read: Pick<SkippedPart, "isCutting" | "dropped">,
): SkippedPart | null {
  const dropped = part.dropped - read.dropped;
  if (offset >= part.to && dropped <= 0) return null;
  // If no bytes were read, the part begins within the same line as before.
  const isCutting = offset > part.from ? read.isCutting : part.isCutting;
  return { ...part, from: offset, fromAt: timeAt(part, offset), isCutting, dropped };
}

/**
 * The part without its lines from `from` to `cut.end`, which are dropped. The bytes before `from`
 * are being stored, and become a part of their own.
 */
export function withoutLines(
  part: SkippedPart,
  from: number,
  cut: { readonly lines: number; readonly end: number; readonly isCutting: boolean },
): readonly SkippedPart[] {
  const { lines, end } = cut;
  const isCutting = cut.isCutting && end < part.to;
  const rest = { ...part, from: end, fromAt: timeAt(part, end), isCutting };
  if (part.from === from) return [{ ...rest, dropped: part.dropped + lines }];
  const before = { ...part, to: from, toAt: timeAt(part, from) };
  return [before, { ...rest, dropped: lines }];
}

/** The ranges of the file before `offset` that are in no part, and so may be freed. */
export function rangesOutside(
  parts: readonly SkippedPart[],
  offset: number,
): { from: number; to: number }[] {
  // The ranges lie before, between and after the parts.
  const starts = [0, ...parts.map(({ to }) => to)];
  const ends = [...parts.map(({ from }) => from), offset];
  const ranges = starts.map((from, index) => ({ from, to: ends[index] ?? from }));
  return ranges.filter(({ from, to }) => from < to);
}
