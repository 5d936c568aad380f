// Cuts the time of one metered source into slices, each with its amount. A slice lies within one
// hour (UTC) and between two borders, the instants at which coupons begin or cease to discount.
// Amounts are differences of rounded running sums, so their total is always the exact price,
// rounded, no matter how the time was cut. Pure.

/** One slice; its amounts follow from rates and times alone. */
export type Slice = {
  readonly beginsAtMs: number;
  readonly ms: number;
  /** The cost of a second, in 10^-15 of the currency's unit. */
  readonly rateFemtos: bigint;
  /** The exact cost of all earlier slices of the source, in 10^-18 of the unit. */
  readonly attosBefore: bigint;
  /** The cost of this slice, in 10^-6 of the unit. */
  readonly micros: bigint;
};

export type SliceRequest = {
  /** When the source began. */
  readonly startMs: number;
  /** The end of the time to cut. */
  readonly endMs: number;
  /** The borders, in any order. */
  readonly borders: readonly number[];
  /**
   * Existing slices of the source in time order: the last slice that begins at or before `endMs`,
   * and all later slices. They keep their rates, so that time already counted keeps its price.
   */
  readonly known: readonly Slice[];
  readonly rateAt: (atMs: number) => bigint;
  /** The maximum number of slices returned. */
  readonly slicesMax: number;
};

const hourMs = 3_600_000;
/** A micro-unit in attos, which are 10^-18 of the unit. */
const attosOfMicro = 1_000_000_000_000n;

/** The slices that replace the known ones, in time order, up to `endMs` or up to `slicesMax`. */
export function slicesUpTo(request: SliceRequest): Slice[] {
  const { endMs, known, slicesMax } = request;
  // The time from the first known slice on is cut anew.
  const first = known[0];
  const slices: Slice[] = [];
  let atMs = first?.beginsAtMs ?? request.startMs;
  let attosBefore = first?.attosBefore ?? 0n;
  while (atMs < endMs && slices.length < slicesMax) {
    const ms = nextCut(request, atMs) - atMs;
    // All slices of an hour have one rate, so any known slice of the hour has it.
    const rateFemtos = known.findLast(isOfHour(atMs))?.rateFemtos ?? request.rateAt(atMs);
    // Femtos (10^-15) of a second, times milliseconds, make attos (10^-18).
    const attos = rateFemtos * BigInt(ms);
    const micros = rounded(attosBefore + attos) - rounded(attosBefore);
    slices.push({ beginsAtMs: atMs, ms, rateFemtos, attosBefore, micros });
    attosBefore += attos;
    atMs += ms;
  }
  return slices;
}

/**
 * The end of a slice that begins at `atMs`: the next border, the end of the hour or `endMs`,
 * whichever is first.
 */
function nextCut({ endMs, borders }: SliceRequest, atMs: number): number {
  const hourEndMs = (Math.floor(atMs / hourMs) + 1) * hourMs;
  let cutMs = Math.min(hourEndMs, endMs);
  for (const border of borders) {
    if (border > atMs) cutMs = Math.min(cutMs, border);
  }
  return cutMs;
}

/** Whether a slice begins in the same hour as `atMs`, and not after `atMs`. */
function isOfHour(atMs: number): (slice: Slice) => boolean {
  return ({ beginsAtMs }) =>
    beginsAtMs <= atMs && Math.floor(beginsAtMs / hourMs) === Math.floor(atMs / hourMs);
}

/** Rounds to micro-units, halves up. */
function rounded(attos: bigint): bigint {
  return (attos + attosOfMicro / 2n) / attosOfMicro;
}
