// Amounts and times of usage in the format of answers.
import { assert } from "#lib/assert.ts";
import { microsOfCent } from "#lib/money.ts";
import type { StatementLine } from "#billing/statements/statement.ts";
import { costOf, type UsageSums } from "#billing/usage/usage-store.ts";

/** Exact, as a number; JSON numbers lose precision only at amounts of nine billion. */
export function microsOf(micros: bigint): number {
  const number = Number(micros);
  assert(Number.isSafeInteger(number), "an amount fits into a number");
  return number;
}

/** Cents, rounded to the nearest, halves up. */
export function centsOf(micros: bigint): number {
  const raised = micros + microsOfCent / 2n;
  const cents = raised / microsOfCent - (raised < 0n && raised % microsOfCent !== 0n ? 1n : 0n);
  return microsOf(cents);
}

/**
 * Cents of usage, of discounts, of corrections and of the resulting debt, which add up: usage, the
 * rest after coupons and the total after corrections are rounded; discounts and corrections are the
 * differences. So a discount is never negative or larger than its base.
 */
export function sumInCents(sum: Readonly<Record<"usage" | "discounts" | "corrections", bigint>>) {
  const usage = centsOf(sum.usage);
  const discounted = centsOf(sum.usage - sum.discounts);
  const total = centsOf(sum.usage - sum.discounts + sum.corrections);
  return { usage, discounts: usage - discounted, corrections: total - discounted, total };
}

/** With millisecond precision. */
export function secondsOf(ms: number): number {
  return Math.round(ms) / 1000;
}

/** The GB of a statement's line: of memory, or of storage. */
export function showGbSeconds({ kind, gbMs }: Pick<StatementLine, "kind" | "gbMs">) {
  const gbSeconds = secondsOf(gbMs);
  return kind === "storage"
    ? { memory_gb_seconds: 0, storage_gb_seconds: gbSeconds }
    : { memory_gb_seconds: gbSeconds };
}

/** The fields of usage sums. */
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

/** An amount for people: `12.34` for 12,340,000 micro-units, with further digits if needed. */
export function decimalOf(micros: bigint): string {
  const sign = micros < 0n ? "-" : "";
  const digits = String(micros < 0n ? -micros : micros).padStart(7, "0");
  const fraction = digits.slice(-6).replace(/0{1,4}$/, "");
  return `${sign}${digits.slice(0, -6)}.${fraction}`;
}
