// Reads the file of plans (SLIPWAY_PLANS_FILE, TOML). Refuses any error with the line, the field,
// the value and what is allowed: a misread limit must not silently be ignored.
import {
  parseFile,
  operatorFileRefused,
  readChoice,
  readNumber,
  refuseUnknown,
  tableOf,
} from "#lib/operator-file.ts";
import { couponRules, selfHosted, type ProjectPlan, type Plans } from "./plan.ts";

/** The position of a field in the file, for messages. */
type Where = (...path: string[]) => string;

const nameForm = /^[a-z0-9][a-z0-9-]{0,49}$/;
const namesAllowed = "1 to 50 lowercase letters, digits and dashes, not starting with a dash";
/** More plans than any operator defines. */
const plansMax = 100;

/**
 * Numeric fields of a plan and their ranges. A plan allows at least one app and one replica,
 * because it would be useless otherwise.
 */
const numbers = {
  apps: { property: "appsMax", min: 1, max: 1_000_000 },
  replicas: { property: "replicasMax", min: 1, max: 1_000_000 },
  gpus: { property: "gpusMax", min: 0, max: 1_000_000 },
  audit_retention_days: { property: "auditRetentionDays", min: 1, max: 3650 },
  log_retention_days: { property: "logRetentionDays", min: 1, max: 3650 },
  call_retention_days: { property: "callRetentionDays", min: 1, max: 3650 },
  call_records_per_minute: { property: "callRecordsPerMinute", min: 0, max: 1_000_000 },
  monthly_credit_cents: { property: "monthlyCreditCents", min: 0, max: 100_000_000_000 },
} as const satisfies Record<string, { property: keyof ProjectPlan; min: number; max: number }>;

const planFields = [...Object.keys(numbers), "coupons"];

/**
 * The plans in `text`, plus `self-hosted` unless the text defines a plan of that name. Throws
 * `OperatorFileRefused`.
 */
export function readPlans(text: string): Plans {
  const where: Where = (...path) => positionOf(text, path);
  const root = parseFile(text);
  refuseUnknown(root, ["default", "plans"], (key) => where(key));
  const tables = tableOf(where("plans"), root["plans"] ?? {});
  const names = Object.keys(tables);
  if (names.length > plansMax) {
    throw operatorFileRefused(where("plans"), `${names.length} plans`, `at most ${plansMax} plans`);
  }
  const plans = names.map((name) => {
    const whereInPlan: Where = (...path) => where("plans", name, ...path);
    return readPlan(name, tables[name], whereInPlan);
  });
  const byName = new Map([selfHosted, ...plans].map((plan) => [plan.name, plan]));
  const defaultName = root["default"] ?? selfHosted.name;
  const standard = typeof defaultName === "string" ? byName.get(defaultName) : undefined;
  if (standard === undefined)
    throw operatorFileRefused(
      where("default"),
      defaultName,
      `one of ${[...byName.keys()].join(", ")}`,
    );
  return { standard, byName };
}

function readPlan(name: string, value: unknown, where: Where): ProjectPlan {
  if (!nameForm.test(name)) throw operatorFileRefused(where(), name, `called by ${namesAllowed}`);
  const table = tableOf(where(), value);
  refuseUnknown(table, planFields, (key) => where(key));
  // What the file leaves out is as in the plan `self-hosted`.
  const limits: Partial<Record<keyof ProjectPlan, number>> = {};
  for (const [field, { property, min, max }] of Object.entries(numbers)) {
    if (table[field] === undefined) continue;
    limits[property] = readNumber(where(field), table[field], { min, max, isWhole: true });
  }
  const { coupons = selfHosted.coupons } = table;
  return {
    ...selfHosted,
    ...limits,
    name,
    coupons: readChoice(where("coupons"), coupons, couponRules),
  };
}

/** A position like `line 4: plans.hobby.apps`, without the line if it is unknown. */
function positionOf(text: string, path: readonly string[]): string {
  const name = path.join(".");
  const line = lineOf(text, name);
  return line === null ? name : `line ${line}: ${name}`;
}

/**
 * The line of a key or a table header, counted from 1; null when it is written otherwise, as in an
 * inline table.
 */
function lineOf(text: string, path: string): number | null {
  let table = "";
  for (const [index, line] of text.split("\n").entries()) {
    // A line is a table's header, `[plans.hobby]`, or a key and its value, `apps = 3`, or neither.
    const header = /^\s*\[\s*([^[\]]+?)\s*\]/.exec(line)?.[1];
    const key = /^\s*([\w.\s"'-]+?)\s*=/.exec(line)?.[1];
    let linePath: string | null = null;
    if (header !== undefined) {
      table = plainKey(header);
      linePath = table;
    } else if (key !== undefined) {
      linePath = plainKey(`${table}.${key}`);
    }
    // A key before the first header has an empty table, and so a dot in front.
    if (linePath !== null && linePath.replace(/^\./, "") === path) return index + 1;
  }
  return null;
}

/** A dotted key without quotes and spaces. */
function plainKey(key: string): string {
  return key.replaceAll(/["'\s]/g, "");
}
