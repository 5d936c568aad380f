// Stretches of time during which the same coupons discount: what coupons take off is decided on their sums, not on single
// slices. A stretch begins with a month, or at a border, the instant at which a coupon begins or ceases to discount. Pure.
import { boundsOf, periodOf } from "#billing/period.ts";
import type { AppliedCoupon } from "#billing/coupons/settle.ts";

/** The borders of coupons, each once, in the order of time. */
export function bordersOf(applied: readonly AppliedCoupon[]): number[] {
  const found = applied.flatMap(({ appliedAtMs, expiresAtMs }) =>
    expiresAtMs === null ? [appliedAtMs] : [appliedAtMs, expiresAtMs],
  );
  return [...new Set(found)].sort((one, other) => one - other);
}

/** When the stretch begins that an instant lies in; `borders` in the order of time. */
export function stretchOf(borders: readonly number[], atMs: number): number {
  const { fromMs } = boundsOf(periodOf(atMs));
  return Math.max(fromMs, borders.findLast((border) => border <= atMs) ?? fromMs);
}

/** A stretch that is to be cut in two: what lies from `atMs` on, and before `toMs`, leaves the one that begins at `ofMs`. */
export type StretchCut = { readonly ofMs: number; readonly atMs: number; readonly toMs: number };

/** The cuts that make of the known stretches those of all borders, in the order in which they are to be made. */
export function cutsOf(borders: readonly number[], known: ReadonlySet<number>): StretchCut[] {
  return borders.flatMap((atMs, index) => {
    const { fromMs, toMs: monthEndMs } = boundsOf(periodOf(atMs));
    if (known.has(atMs) || atMs === fromMs) return [];
    // Up to the next one that was cut before: what lies behind those between is taken on from here by their own cuts.
    const nextMs = borders.find((border) => border > atMs && known.has(border)) ?? monthEndMs;
    return [{ ofMs: stretchOf(borders.slice(0, index), atMs), atMs, toMs: Math.min(monthEndMs, nextMs) }];
  });
}
