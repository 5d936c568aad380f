// Computes the statement of one month: usage, discounts, late corrections of earlier months, and
// the amount due. Pure. A closed statement never changes: later changes become corrections in a
// later statement.
import type { Period } from "#billing/period.ts";
import { drawnIn, type Drawn } from "#billing/coupons/settle.ts";
import type { SourceKind } from "#billing/usage/metered-source.ts";

/**
 * Usage of one kind, of an app or, with an empty `appId`, of the project itself. Amounts are texts,
 * because they are stored as JSON. Times are in ms; those of GPUs, cores and GB are multiplied by
 * their numbers.
 */
export type StatementLine = {
  readonly appId: string;
  readonly kind: SourceKind;
  readonly compute: string;
  readonly computeTier: string;
  readonly pool: string;
  readonly ms: number;
  readonly gpuMs: number;
  readonly coreMs: number;
  readonly gbMs: number;
  readonly builds: number;
  readonly micros: string;
};

/** The discount of an applied coupon. */
export type StatementDiscount = {
  readonly applicationId: string;
  readonly code: string;
  readonly name: string;
  readonly micros: string;
};

/** A change to a month after its statement was closed; either amount may be negative. */
export type StatementCorrection = {
  readonly period: Period;
  readonly usageMicros: string;
  readonly discountMicros: string;
};

/**
 * The content of a statement. `totalMicros` = usage − discounts + the corrections' usage − their
 * discounts.
 */
export type StatementContent = {
  readonly period: Period;
  readonly currency: string;
  readonly lines: readonly StatementLine[];
  readonly discounts: readonly StatementDiscount[];
  readonly corrections: readonly StatementCorrection[];
  readonly usageMicros: string;
  readonly discountMicros: string;
  readonly correctionMicros: string;
  readonly totalMicros: string;
};

export type StatementParts = Pick<StatementContent, "period" | "currency" | "lines"> & {
  /** The known usage of each month, in micro-units. */
  readonly bases: ReadonlyMap<Period, bigint>;
  /** All known discounts, of all months. */
  readonly drawn: readonly Drawn[];
  readonly coupons: ReadonlyMap<
    string,
    { readonly couponCode: string; readonly couponName: string }
  >;
  /**
   * All other statements so far, including later months: the amounts that they report are not
   * reported again.
   */
  readonly said: readonly StatementContent[];
};

/** Computes the statement of a month from current data. */
export function statementOf(parts: StatementParts): StatementContent {
  const { period, currency, lines, drawn, coupons } = parts;
  const discounts = drawn
    .filter((draw) => draw.period === period)
    .map(({ applicationId, amount }) => {
      const coupon = coupons.get(applicationId);
      // Only applied coupons discount, so the empty texts just satisfy the compiler.
      const names = { code: coupon?.couponCode ?? "", name: coupon?.couponName ?? "" };
      return { applicationId, ...names, micros: String(amount.micros) };
    });
  const corrections = correctionsOf(parts);
  const usage = sum(lines.map(({ micros }) => micros));
  const discount = sum(discounts.map(({ micros }) => micros));
  const correction =
    sum(corrections.map(({ usageMicros }) => usageMicros)) -
    sum(corrections.map(({ discountMicros }) => discountMicros));
  return {
    period,
    currency,
    lines,
    discounts,
    corrections,
    usageMicros: String(usage),
    discountMicros: String(discount),
    correctionMicros: String(correction),
    totalMicros: String(usage - discount + correction),
  };
}

/**
 * The known amounts of earlier months with a statement, minus the amounts that statements report
 * for these months.
 */
function correctionsOf(parts: StatementParts): StatementCorrection[] {
  const { bases, drawn, said: statements } = parts;
  const corrections: StatementCorrection[] = [];
  for (const { period, usageMicros, discountMicros } of statements) {
    // A statement corrects only months before its own.
    if (period >= parts.period) continue;
    // A month is reported by its own statement and by the corrections of later statements.
    const reported = statements
      .flatMap((statement) => statement.corrections)
      .filter((correction) => correction.period === period);
    const reportedUsage =
      BigInt(usageMicros) + sum(reported.map((correction) => correction.usageMicros));
    const reportedDiscount =
      BigInt(discountMicros) + sum(reported.map((correction) => correction.discountMicros));
    const usage = (bases.get(period) ?? 0n) - reportedUsage;
    const discount = drawnIn(drawn, period) - reportedDiscount;
    if (usage === 0n && discount === 0n) continue;
    corrections.push({
      period,
      usageMicros: String(usage),
      discountMicros: String(discount),
    });
  }
  return corrections;
}

function sum(amounts: readonly string[]): bigint {
  return amounts.reduce((total, micros) => total + BigInt(micros), 0n);
}
