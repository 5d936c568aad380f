// Calculates with amounts of money: whole micro-units of one currency, as bigint. Only `shareOf`
// and `wholeCents` round. Mixing currencies is a bug and fails an assertion.
import { assert } from "./assert.ts";

declare const brand: unique symbol;
/** An ISO 4217 code, such as USD. */
export type Currency = string & { readonly [brand]: "Currency" };

/** An amount of money. `micros`: millionths of the currency's unit. */
export type Money = { readonly currency: Currency; readonly micros: bigint };

/** A share of an amount, in hundred-thousandths of a percent: 10,000,000 is 100%. */
export type Rate = number & { readonly [brand]: "Rate" };

/** The number of micro-units in a hundredth of the unit. */
export const microsOfCent = 10_000n;
/** The rate of 100 percent. */
const wholeRate = 10_000_000;
/** The rate of one percent. */
const rateOfPercent = 100_000;

const knownCurrencies: ReadonlySet<string> = new Set(Intl.supportedValuesOf("currency"));

/** Returns the currency with this code, or null when there is none. */
export function readCurrency(code: string): Currency | null {
  return knownCurrencies.has(code) ? (code as Currency) : null;
}

/** Returns a zero amount. */
export function nothing(currency: Currency): Money {
  return { currency, micros: 0n };
}

/** Returns the amount of a whole number of hundredths of the unit. */
export function ofCents(currency: Currency, cents: number): Money {
  assert(Number.isSafeInteger(cents), "cents are a whole number");
  return { currency, micros: BigInt(cents) * microsOfCent };
}

/** Returns whole cents, rounded down, so that a credit is never shown larger than it is. */
export function wholeCents({ micros }: Money): number {
  // A division of bigints drops the remainder, which rounds a negative amount up.
  const isRoundedUp = micros < 0n && micros % microsOfCent !== 0n;
  const quotient = micros / microsOfCent;
  const number = Number(isRoundedUp ? quotient - 1n : quotient);
  assert(Number.isSafeInteger(number), "an amount fits into whole cents");
  return number;
}

/** Returns the sum of two amounts of one currency. */
export function plus(one: Money, other: Money): Money {
  return { currency: sameCurrency(one, other), micros: one.micros + other.micros };
}

/** Returns the first amount minus the second, which may be negative. */
export function minus(one: Money, other: Money): Money {
  return plus(one, negative(other));
}

/** Returns the amount with the opposite sign. */
export function negative({ currency, micros }: Money): Money {
  return { currency, micros: -micros };
}

/** Returns the smaller of two amounts of one currency. */
export function smaller(one: Money, other: Money): Money {
  sameCurrency(one, other);
  return one.micros <= other.micros ? one : other;
}

/**
 * Returns a share of an amount that is not negative, rounded to the nearest micro-unit, halves up;
 * never more than the amount.
 */
export function shareOf({ currency, micros }: Money, rate: Rate): Money {
  assert(micros >= 0n, "a share is taken of what is not below zero");
  // Half of the divisor is added, because a division of bigints drops the remainder.
  const dividend = micros * BigInt(rate) + BigInt(wholeRate / 2);
  return { currency, micros: dividend / BigInt(wholeRate) };
}

/**
 * Returns the rate of a percentage above 0 and up to 100 with at most five decimals; null for any
 * other percentage.
 */
export function rateOf(percentage: number): Rate | null {
  const rate = Math.round(percentage * rateOfPercent);
  const isExact = rate / rateOfPercent === percentage;
  const isInRange = rate >= 1 && rate <= wholeRate;
  return isExact && isInRange ? (rate as Rate) : null;
}

/** Returns the percentage of a rate. */
export function percentageOf(rate: Rate): number {
  return rate / rateOfPercent;
}

function sameCurrency(one: Money, other: Money): Currency {
  assert(
    one.currency === other.currency,
    `amounts are of one currency, not of ${one.currency} and ${other.currency}`,
  );
  return one.currency;
}
