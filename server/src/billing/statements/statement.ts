// The statement of one month: what was used, what coupons took off, what came to light later of earlier months, and what is
// owed. Pure. A statement that is closed never changes: what would change it is a correction in a later one.
import type { Period } from "#billing/period.ts";
import type { Drawn } from "#billing/coupons/settle.ts";

/** What one app used of one kind. Amounts are texts, since they are kept as JSON. Times in ms. */
export type StatementLine = {
  readonly appId: string;
  readonly kind: "run" | "build";
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

/** What an applied coupon took off. */
export type StatementDiscount = {
  readonly applicationId: string;
  readonly code: string;
  readonly name: string;
  readonly micros: string;
};

/** What became known of a month after its statement was closed; either may be below zero. */
export type StatementCorrection = {
  readonly period: Period;
  readonly usageMicros: string;
  readonly discountMicros: string;
};

/** All of a statement. `totalMicros` = usage − discounts + the corrections' usage − their discounts. */
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

export type StatementParts = {
  readonly period: Period;
  readonly currency: string;
  readonly lines: readonly StatementLine[];
  /** What is known now of each month's usage, in micro-units. */
  readonly bases: ReadonlyMap<Period, bigint>;
  /** What is known now of all that coupons take off, of all months. */
  readonly drawn: readonly Drawn[];
  readonly coupons: ReadonlyMap<string, { readonly couponCode: string; readonly couponName: string }>;
  /** All other statements that stand already, also those of later months: what they say is not said again. */
  readonly said: readonly StatementContent[];
};

/** The statement of a month, by all that is known now. */
export function statementOf(parts: StatementParts): StatementContent {
  const { period, currency, lines, drawn, coupons } = parts;
  const discounts = drawn
    .filter((one) => one.period === period)
    .map(({ applicationId, amount }) => {
      const coupon = coupons.get(applicationId);
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
    ...{ period, currency, lines, discounts, corrections },
    usageMicros: String(usage),
    discountMicros: String(discount),
    correctionMicros: String(correction),
    totalMicros: String(usage - discount + correction),
  };
}

/** What is known now of earlier months that have a statement, less all that statements say of them. */
function correctionsOf({ period: own, bases, drawn, said }: StatementParts): StatementCorrection[] {
  const earlier = said.filter(({ period }) => period < own);
  return earlier.flatMap(({ period, usageMicros, discountMicros }) => {
    const corrections = said.flatMap((statement) => statement.corrections).filter((one) => one.period === period);
    const saidUsage = BigInt(usageMicros) + sum(corrections.map((one) => one.usageMicros));
    const saidDiscount = BigInt(discountMicros) + sum(corrections.map((one) => one.discountMicros));
    const isDiscount = drawn
      .filter((one) => one.period === period)
      .reduce((all, { amount }) => all + amount.micros, 0n);
    const usage = (bases.get(period) ?? 0n) - saidUsage;
    const discount = isDiscount - saidDiscount;
    if (usage === 0n && discount === 0n) return [];
    return [{ period, usageMicros: String(usage), discountMicros: String(discount) }];
  });
}

function sum(micros: readonly string[]): bigint {
  return micros.reduce((total, one) => total + BigInt(one), 0n);
}
