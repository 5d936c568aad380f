// Amounts and times of usage as answers show them.
import { assert } from "#lib/assert.ts";
import { microsOfCent } from "#lib/money.ts";
import type { UsageSums } from "#billing/usage/usage-store.ts";

/** Exact, as a number; amounts of nine billion are beyond what JSON's numbers hold. */
export function microsOf(micros: bigint): number {
  const number = Number(micros);
  assert(Number.isSafeInteger(number), "an amount fits into a number");
  return number;
}

/** Hundredths, rounded to the nearest, halves up. */
export function centsOf(micros: bigint): number {
  const raised = micros + microsOfCent / 2n;
  const cents = raised / microsOfCent - (raised < 0n && raised % microsOfCent !== 0n ? 1n : 0n);
  return microsOf(cents);
}

/** Hundredths of usage, of what coupons take off it, of corrections and of what is owed then. */
export type SumInCents = {
  readonly usage: number;
  readonly discounts: number;
  readonly corrections: number;
  readonly total: number;
};

/**
 * In cents that add up: what is used and what is left after coupons and after corrections are rounded, discounts and
 * corrections are the differences. So a discount is never below zero or above what it is taken off.
 */
export function sumInCents(sum: {
  readonly usage: bigint;
  readonly discounts: bigint;
  readonly corrections: bigint;
}): SumInCents {
  const usage = centsOf(sum.usage);
  const discounted = centsOf(sum.usage - sum.discounts);
  const total = centsOf(sum.usage - sum.discounts + sum.corrections);
  return { usage, discounts: usage - discounted, corrections: total - discounted, total };
}

/** To the millisecond. */
export function secondsOf(ms: number): number {
  return Math.round(ms) / 1000;
}

/** The fields of sums of usage. */
export function showSums(sums: UsageSums) {
  const cost = sums.runMicros + sums.buildMicros;
  return {
    replica_seconds: secondsOf(sums.replicaMs),
    gpu_seconds: secondsOf(sums.gpuMs),
    cpu_core_seconds: secondsOf(sums.coreMs),
    memory_gb_seconds: secondsOf(sums.gbMs),
    build_seconds: secondsOf(sums.buildMs),
    build_count: sums.builds,
    cost_cents: centsOf(cost),
    cost_micros: microsOf(cost),
  };
}

/** An amount for people: `12.34` of 12,340,000 micro-units, and further digits where there are any. */
export function decimalOf(micros: bigint): string {
  const sign = micros < 0n ? "-" : "";
  const digits = String(micros < 0n ? -micros : micros).padStart(7, "0");
  const fraction = digits.slice(-6).replace(/0{1,4}$/, "");
  return `${sign}${digits.slice(0, -6)}.${fraction}`;
}
