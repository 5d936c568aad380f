// Stretches of time during which the same coupons discount: discounts are computed on the usage of
// a whole stretch, not on single slices. A stretch begins with a month, or at a border, the instant
// at which a coupon begins or ceases to discount. Pure.
import { boundsOf, periodOf } from "#billing/period.ts";
import type { AppliedCoupon } from "#billing/coupons/settle.ts";

/** The distinct borders of coupons, in time order. */
export function bordersOf(applied: readonly AppliedCoupon[]): number[] {
  const instants = applied.flatMap(({ appliedAtMs, expiresAtMs }) =>
    expiresAtMs === null ? [appliedAtMs] : [appliedAtMs, expiresAtMs],
  );
  return [...new Set(instants)].sort((left, right) => left - right);
}

/** The start of the stretch that contains an instant; `borders` in time order. */
export function stretchOf(borders: readonly number[], atMs: number): number {
  const { fromMs } = boundsOf(periodOf(atMs));
  return Math.max(fromMs, borders.findLast((border) => border <= atMs) ?? fromMs);
}

/**
 * Splits the stretch that begins at `ofMs`: its usage from `atMs` on, and before `toMs`, moves to a
 * new stretch that begins at `atMs`.
 */
export type StretchCut = { readonly ofMs: number; readonly atMs: number; readonly toMs: number };

/**
 * The cuts that turn the stretches that begin at the `known` times into the stretches of all
 * borders, in the order in which to apply them.
 */
export function cutsOf(borders: readonly number[], known: ReadonlySet<number>): StretchCut[] {
  const cuts: StretchCut[] = [];
  for (const [index, atMs] of borders.entries()) {
    const { fromMs, toMs: monthEndMs } = boundsOf(periodOf(atMs));
    // A month begins with a stretch of its own.
    if (known.has(atMs) || atMs === fromMs) continue;
    // The usage up to the next known stretch moves. The cuts of later borders move parts of it on.
    const nextMs = borders.find((border) => border > atMs && known.has(border)) ?? monthEndMs;
    // The stretch that contains the border, after the cuts at all earlier borders.
    const ofMs = stretchOf(borders.slice(0, index), atMs);
    cuts.push({ ofMs, atMs, toMs: Math.min(monthEndMs, nextMs) });
  }
  return cuts;
}
