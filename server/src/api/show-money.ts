// Converts amounts and times of usage to the format of answers.
import { assert } from "#lib/assert.ts";
import { microsOfCent } from "#lib/money.ts";
import type { StatementLine } from "#billing/statements/statement.ts";
import { costOf, type UsageSums } from "#billing/usage/usage-store.ts";

/** The amount as a number. Up to nine billion of the currency's unit, this is exact. */
export function microsOf(micros: bigint): number {
  const number = Number(micros);
  assert(Number.isSafeInteger(number), "an amount fits into a number");
  return number;
}

/** The amount in cents, rounded to the nearest cent; half a cent is rounded up. */
export function centsOf(micros: bigint): number {
  // Half a cent more, rounded down, is the nearest cent.
  const raised = micros + microsOfCent / 2n;
  const truncated = raised / microsOfCent;
  // The division truncates towards zero, which for negative amounts is up.
  const isTruncatedUp = raised < 0n && raised % microsOfCent !== 0n;
  return microsOf(isTruncatedUp ? truncated - 1n : truncated);
}

/**
 * Usage, discounts, corrections and their total in cents, which add up: the usage, the remainder
 * after coupons and the total are rounded; discounts and corrections are the differences between
 * these rounded amounts. So a discount is never negative, and never larger than the usage.
 */
export function sumInCents(sum: Readonly<Record<"usage" | "discounts" | "corrections", bigint>>) {
  const usage = centsOf(sum.usage);
  const discounted = centsOf(sum.usage - sum.discounts);
  const total = centsOf(sum.usage - sum.discounts + sum.corrections);
  return { usage, discounts: usage - discounted, corrections: total - discounted, total };
}

/** The time in seconds, with three decimal places. */
export function secondsOf(ms: number): number {
  return Math.round(ms) / 1000;
}

/** The GB seconds of a statement's line, as memory or as storage. */
export function showGbSeconds({ kind, gbMs }: Pick<StatementLine, "kind" | "gbMs">) {
  const gbSeconds = secondsOf(gbMs);
  return kind === "storage"
    ? { memory_gb_seconds: 0, storage_gb_seconds: gbSeconds }
    : { memory_gb_seconds: gbSeconds };
}

/** Usage sums as the fields of an answer. */
export function showSums(sums: UsageSums) {
  const cost = costOf(sums);
  return {
    replica_seconds: secondsOf(sums.replicaMs),
    gpu_seconds: secondsOf(sums.gpuMs),
    cpu_core_seconds: secondsOf(sums.coreMs),
    memory_gb_seconds: secondsOf(sums.gbMs),
    build_seconds: secondsOf(sums.buildMs),
    build_count: sums.builds,
    storage_gb_seconds: secondsOf(sums.storageGbMs),
    cost_cents: centsOf(cost),
    cost_micros: microsOf(cost),
  };
}

/** The amount as people read it: `12.34` for 12,340,000 micro-units, with more digits if needed. */
export function decimalOf(micros: bigint): string {
  const sign = micros < 0n ? "-" : "";
  // The last six digits are the fraction, of which two always stay. Seven digits leave at least one
  // for the place before the point.
  const digits = String(micros < 0n ? -micros : micros).padStart(7, "0");
  const fraction = digits.slice(-6).replace(/0{1,4}$/, "");
  return `${sign}${digits.slice(0, -6)}.${fraction}`;
}
