// The parts of an output file that were skipped, because newer output came first. They are read
// when nothing newer is there, the newest part first. Pure.

/**
 * One such part. With `from` at `to`, nothing of it is left but the number of its dropped lines.
 */
export type SkippedPart = {
  readonly from: number;
  readonly to: number;
  /** The part's lines were written evenly between these times, in milliseconds since the epoch. */
  readonly fromAt: number;
  readonly toAt: number;
  /** It begins inside of a line that was cut. */
  readonly isCutting: boolean;
  /** Lines before `from` that were dropped, and of which the log does not say so yet. */
  readonly dropped: number;
};

/** Bytes that are still to be read. */
export function bytesOf(parts: readonly SkippedPart[]): number {
  return parts.reduce((sum, { from, to }) => sum + to - from, 0);
}

/** The time of what ends at `offset`: grows with the offset, so that lines keep their order. */
export function timeAt({ from, to, fromAt, toAt }: SkippedPart, offset: number): number {
  if (to <= from) return toAt;
  return Math.floor(fromAt + ((toAt - fromAt) * (Math.min(offset, to) - from)) / (to - from));
}

/**
 * The part that is read next: one of which only the number of its lines is left, or the newest one.
 */
export function nextPart(parts: readonly SkippedPart[]): SkippedPart | undefined {
  return parts.find(({ from, to }) => from >= to) ?? parts.at(-1);
}

/**
 * No two parts begin at the same offset: one of which only a number is left gives it to the part
 * that begins there.
 */
export function joinedParts(parts: readonly SkippedPart[]): readonly SkippedPart[] {
  const all: SkippedPart[] = [];
  for (const part of parts) {
    const last = all.at(-1);
    const isSame = last !== undefined && last.from >= last.to && last.to === part.from;
    if (isSame) all.pop();
    all.push(isSame ? { ...part, dropped: part.dropped + last.dropped } : part);
  }
  return all;
}

/**
 * The part once it is read up to `offset` and its dropped lines are in the log. Null: it is done.
 */
export function readUpTo(
  part: SkippedPart,
  offset: number,
  read: Pick<SkippedPart, "isCutting" | "dropped">,
): SkippedPart | null {
  const dropped = part.dropped - read.dropped;
  if (offset >= part.to && dropped <= 0) return null;
  const isCutting = offset > part.from ? read.isCutting : part.isCutting;
  return { ...part, from: offset, fromAt: timeAt(part, offset), isCutting, dropped };
}

/**
 * The part without its lines from `from` to `end`, which are dropped. What is before `from` is
 * being stored and becomes a part of its own.
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

/** What may be freed before `offset`: all that is not in a part. */
export function rangesOutside(
  parts: readonly SkippedPart[],
  offset: number,
): { from: number; to: number }[] {
  const starts = [0, ...parts.map(({ to }) => to)];
  const ends = [...parts.map(({ from }) => from), offset];
  const ranges = starts.map((from, index) => ({ from, to: ends[index] ?? from }));
  return ranges.filter(({ from, to }) => from < to);
}
