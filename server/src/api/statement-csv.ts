// A statement as CSV: one record for each line of usage, discount and correction, and one for the
// total. Amounts are in the currency's unit, with a decimal point, exact to the micro-unit.
import type { StatementContent } from "#billing/statements/statement.ts";
import { csvText } from "#lib/csv.ts";
import { decimalOf, secondsOf, showGbSeconds } from "./show-money.ts";

const columns = [
  "month",
  "type",
  "app_id",
  "kind",
  "compute",
  "compute_tier",
  "pool",
  "seconds",
  "gpu_seconds",
  "cpu_core_seconds",
  "memory_gb_seconds",
  "build_count",
  "storage_gb_seconds",
  "coupon_code",
  "coupon_name",
  "about_month",
  "amount",
  "currency",
] as const;

type Values = Partial<Record<(typeof columns)[number], string | number>>;

/**
 * The whole text, with a header line. The last record is the total, to which the amounts of the
 * others add up.
 */
export function statementCsv(statement: StatementContent): string {
  const records: Values[] = [
    ...statement.lines.map((line) => ({
      type: "usage",
      app_id: line.appId,
      kind: line.kind,
      compute: line.compute,
      compute_tier: line.computeTier,
      pool: line.pool,
      seconds: secondsOf(line.ms),
      gpu_seconds: secondsOf(line.gpuMs),
      cpu_core_seconds: secondsOf(line.coreMs),
      ...showGbSeconds(line),
      build_count: line.builds,
      amount: decimalOf(BigInt(line.micros)),
    })),
    ...statement.discounts.map(({ code, name, micros }) => ({
      type: "discount",
      coupon_code: code,
      coupon_name: name,
      amount: decimalOf(-BigInt(micros)),
    })),
    ...statement.corrections.map(({ period, usageMicros, discountMicros }) => ({
      type: "correction",
      about_month: period,
      amount: decimalOf(BigInt(usageMicros) - BigInt(discountMicros)),
    })),
    { type: "total", amount: decimalOf(BigInt(statement.totalMicros)) },
  ];
  const { period, currency } = statement;
  const rows = records.map((record) => ({ ...record, month: period, currency }) as Values);
  const lines = rows.map((row) =>
    columns.map((column) => cell(row[column] ?? "", column)).join(","),
  );
  // The empty text at the end makes the last line end like the others.
  return [columns.join(","), ...lines, ""].join("\r\n");
}

/**
 * One value of a record. Texts that people choose are written so that no spreadsheet takes them for
 * formulas; negative amounts must stay numbers.
 */
function cell(value: string | number, column: (typeof columns)[number]): string {
  const text = String(value);
  const isFreeText = column === "coupon_name" || column === "coupon_code" || column === "pool";
  return isFreeText && text !== "" ? csvText(text) : text;
}
