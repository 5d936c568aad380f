// Reads the file of plans (SLIPWAY_PLANS_FILE, TOML). Refuses any error with the line, the field, the value and what is
// allowed: a misread limit must not silently have no effect.
import {
  parseFile,
  operatorFileRefused,
  refuseUnknown,
  tableOf,
  type OperatorFileRefused,
  type Table,
} from "#lib/operator-file.ts";
import { couponRules, selfHosted, type ProjectPlan, type Plans } from "./plan.ts";

/** The path of a field, from the root. */
type FieldPath = readonly string[];

const nameForm = /^[a-z0-9][a-z0-9-]{0,49}$/;
const namesAllowed = "1 to 50 lowercase letters, digits and dashes, not starting with a dash";
const plansMax = 100;

/** Numeric fields of a plan and their ranges. A plan without an app or a replica would be useless. */
const numbers = {
  apps: { of: "appsMax", min: 1, max: 1_000_000 },
  replicas: { of: "replicasMax", min: 1, max: 1_000_000 },
  gpus: { of: "gpusMax", min: 0, max: 1_000_000 },
  audit_retention_days: { of: "auditRetentionDays", min: 1, max: 3650 },
  log_retention_days: { of: "logRetentionDays", min: 1, max: 3650 },
  monthly_credit_cents: { of: "monthlyCreditCents", min: 0, max: 100_000_000_000 },
} as const satisfies Record<string, { of: keyof ProjectPlan; min: number; max: number }>;

const planFields = [...Object.keys(numbers), "coupons"];

/** The plans in `text`, plus `self-hosted` unless it defines that name. Throws `OperatorFileRefused`. */
export function readPlans(text: string): Plans {
  const reader = new Reader(text);
  return reader.read();
}

class Reader {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  read(): Plans {
    const root = parseFile(this.#text);
    this.#refuseUnknown([], root, ["default", "plans"]);
    const tables = this.#table(["plans"], root["plans"] ?? {});
    const names = Object.keys(tables);
    if (names.length > plansMax) throw this.#refused(["plans"], `${names.length} plans`, `at most ${plansMax} plans`);
    const plans = names.map((name) => this.#plan(name, tables[name]));
    const byName = new Map([selfHosted, ...plans].map((plan) => [plan.name, plan]));
    const wanted = root["default"] ?? selfHosted.name;
    const standard = typeof wanted === "string" ? byName.get(wanted) : undefined;
    if (standard === undefined) throw this.#refused(["default"], wanted, `one of ${[...byName.keys()].join(", ")}`);
    return { standard, byName };
  }

  #plan(name: string, given: unknown): ProjectPlan {
    const path = ["plans", name];
    if (!nameForm.test(name)) throw this.#refused(path, name, `called by ${namesAllowed}`);
    const table = this.#table(path, given);
    this.#refuseUnknown(path, table, planFields);
    const read: Partial<Record<keyof ProjectPlan, number>> = {};
    for (const [field, { of, min, max }] of Object.entries(numbers)) {
      const value = table[field];
      if (value === undefined) continue;
      if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
        throw this.#refused([...path, field], value, `a whole number from ${min} to ${max}`);
      }
      read[of] = value;
    }
    return { ...selfHosted, ...read, name, coupons: this.#coupons([...path, "coupons"], table["coupons"]) };
  }

  #coupons(path: FieldPath, given: unknown): ProjectPlan["coupons"] {
    const rule = given === undefined ? selfHosted.coupons : couponRules.find((known) => known === given);
    if (rule === undefined) throw this.#refused(path, given, `one of ${couponRules.join(", ")}`);
    return rule;
  }

  #table(path: FieldPath, given: unknown): Table {
    return tableOf(this.#where(path), given);
  }

  #refuseUnknown(path: FieldPath, table: Table, known: readonly string[]): void {
    refuseUnknown(table, known, (key) => this.#where([...path, key]));
  }

  #refused(path: FieldPath, given: unknown, allowed: string): OperatorFileRefused {
    return operatorFileRefused(this.#where(path), given, allowed);
  }

  /** `line 4: plans.hobby.apps`; without a line where it is unknown, as in an inline table. */
  #where(path: FieldPath): string {
    const name = path.join(".");
    const line = lineOf(this.#text, path);
    return line === null ? name : `line ${line}: ${name}`;
  }
}

/** The line of a key or a table header, counted from 1; null: it has another notation. */
function lineOf(text: string, path: FieldPath): number | null {
  const wanted = path.join(".");
  let table = "";
  for (const [index, line] of text.split("\n").entries()) {
    const header = /^\s*\[\s*([^[\]]+?)\s*\]/.exec(line)?.[1];
    const key = /^\s*([\w.\s"'-]+?)\s*=/.exec(line)?.[1];
    if (header !== undefined) table = plain(header);
    const here = header !== undefined ? table : key === undefined ? null : plain(`${table}.${key}`);
    if (here !== null && here.replace(/^\./, "") === wanted) return index + 1;
  }
  return null;
}

/** A dotted key without quotes and spaces. */
function plain(key: string): string {
  return key.replaceAll(/["'\s]/g, "");
}
