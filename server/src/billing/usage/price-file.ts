// Reads the file of prices (SLIPWAY_PRICES_FILE, TOML). Refuses any error with the field, the value
// and what is allowed: a misread price must not silently be ignored.
import { TomlDate } from "smol-toml";
import {
  parseFile,
  operatorFileRefused,
  refuseTwice,
  refuseUnknown,
  tableOf,
  type Table,
} from "#lib/operator-file.ts";
import {
  builtInPrices,
  type PoolRates,
  type Prices,
  type PriceVersion,
  type Rates,
} from "./prices.ts";

const versionFields = [
  "valid_from",
  "cpu_core",
  "memory_gb",
  "protected_multiplier",
  "storage_gb_month",
  "storage_free_gb",
  "compute",
  "pools",
];
const poolFields = ["provider", "region", "cpu_core", "memory_gb", "compute"] as const;

const hourMs = 3_600_000;
/** More versions, or pools of one version, than any operator writes. */
const versionsMax = 1_000;
const poolsMax = 1_000;

/** A number from 0 to `max` that is read exactly, as an integer in units of its last decimal. */
type DecimalForm = { readonly name: string; readonly max: number; readonly decimals: number };
/** A price per second; the maximum is more than any machine costs. */
const perSecond: DecimalForm = { name: "a price per second", max: 1_000, decimals: 9 };
const perMonth: DecimalForm = { name: "a price per month", max: 1_000, decimals: 9 };
const multiplier: DecimalForm = { name: "a number", max: 1_000, decimals: 3 };
const freeGb: DecimalForm = { name: "a number of GB", max: 1_000_000, decimals: 3 };

/**
 * The prices in `text`. A version inherits what it omits from the previous version, and the first
 * version from the built-in prices. Only the `computeTypes` may have prices. Throws
 * `OperatorFileRefused`.
 */
export function readPrices(text: string, computeTypes: readonly string[]): Prices {
  const root = parseFile(text);
  refuseUnknown(root, ["prices"], (key) => key);
  const tables = listOf("prices", root["prices"] ?? [], versionsMax);
  const versions: PriceVersion[] = [];
  for (const [index, table] of tables.entries()) {
    const before = versions.at(-1) ?? builtInPrices[0];
    versions.push(
      readVersion(`prices[${index}]`, table, { before, isFirst: index === 0, computeTypes }),
    );
  }
  // The type of the result requires a first version.
  const [first, ...others] = versions;
  return first === undefined ? builtInPrices : [first, ...others];
}

type VersionContext = {
  /** The previous version, or the built-in prices, from which omitted prices are inherited. */
  readonly before: PriceVersion;
  readonly isFirst: boolean;
  readonly computeTypes: readonly string[];
};

function readVersion(
  path: string,
  table: Table,
  { before, isFirst, computeTypes }: VersionContext,
): PriceVersion {
  refuseUnknown(table, versionFields, (key) => `${path}.${key}`);
  const rates = readRates(path, table, computeTypes);
  const decimal = (name: string, form: DecimalForm, inherited: bigint): bigint =>
    table[name] === undefined ? inherited : readDecimal(`${path}.${name}`, table[name], form);
  return {
    validFromMs: readValidFrom(`${path}.valid_from`, table["valid_from"], { before, isFirst }),
    core: rates.core ?? before.core,
    gb: rates.gb ?? before.gb,
    // The prices that the table names replace the inherited ones.
    compute: new Map([...before.compute, ...(rates.compute ?? [])]),
    protectedThousandths: decimal("protected_multiplier", multiplier, before.protectedThousandths),
    storageGbMonth: decimal("storage_gb_month", perMonth, before.storageGbMonth),
    storageFree: decimal("storage_free_gb", freeGb, before.storageFree),
    pools:
      table["pools"] === undefined
        ? before.pools
        : readPools(`${path}.pools`, table["pools"], computeTypes),
  };
}

function readValidFrom(
  path: string,
  value: unknown,
  { before, isFirst }: Pick<VersionContext, "before" | "isFirst">,
): number {
  if (isFirst) {
    if (value === undefined) return Number.NEGATIVE_INFINITY;
    throw operatorFileRefused(
      path,
      value,
      "left out: the first prices are valid from the beginning",
    );
  }
  const isTime = value instanceof TomlDate && value.isDateTime() && !value.isLocal();
  const allowed = "a whole hour with its zone, of the form 2026-01-31T00:00:00Z";
  if (!isTime || value.getTime() % hourMs !== 0) throw operatorFileRefused(path, value, allowed);
  if (value.getTime() <= before.validFromMs)
    throw operatorFileRefused(path, value, "later than that of the previous prices");
  return value.getTime();
}

function readPools(path: string, value: unknown, computeTypes: readonly string[]): PoolRates[] {
  const tables = listOf(path, value, poolsMax);
  const pools = tables.map((table, index): PoolRates => {
    const poolPath = `${path}[${index}]`;
    refuseUnknown(table, poolFields, (key) => `${poolPath}.${key}`);
    const provider = nameOf(`${poolPath}.provider`, table["provider"]);
    if (provider === null)
      throw operatorFileRefused(`${poolPath}.provider`, undefined, "the name of a provider");
    const region = nameOf(`${poolPath}.region`, table["region"]);
    return { provider, region, ...readRates(poolPath, table, computeTypes) };
  });
  // No name contains a slash, so different pools have different keys.
  const keys = pools.map(({ provider, region }) => [provider, region ?? ""].join("/"));
  refuseTwice(keys, (index) => `${path}[${index}]`, "a pool that is listed only once");
  return pools;
}

/** The prices that the table names. Other prices stay absent, so that they are inherited. */
function readRates(path: string, table: Table, computeTypes: readonly string[]): Partial<Rates> {
  const core = table["cpu_core"];
  const gb = table["memory_gb"];
  const compute = table["compute"];
  const rates: { -readonly [Resource in keyof Rates]?: Rates[Resource] } = {};
  if (core !== undefined) rates.core = readDecimal(`${path}.cpu_core`, core, perSecond);
  if (gb !== undefined) rates.gb = readDecimal(`${path}.memory_gb`, gb, perSecond);
  if (compute !== undefined) rates.compute = readCompute(`${path}.compute`, compute, computeTypes);
  return rates;
}

function readCompute(
  path: string,
  value: unknown,
  computeTypes: readonly string[],
): Map<string, bigint> {
  const table = tableOf(path, value);
  refuseUnknown(table, computeTypes, (key) => `${path}.${key}`);
  return new Map(
    Object.entries(table).map(([type, price]) => [
      type,
      readDecimal(`${path}.${type}`, price, perSecond),
    ]),
  );
}

function readDecimal(path: string, decimal: unknown, { name, max, decimals }: DecimalForm): bigint {
  const allowed = `${name} from 0 to ${max} with at most ${decimals} decimals`;
  // JavaScript writes a number with as few digits as identify it. So its digits are those in the
  // file, except for trailing zeros.
  const text = typeof decimal === "number" ? plainText(decimal) : decimal;
  // The groups are the digits before and after the point. Their bounds keep long texts from being
  // read as numbers; more decimals than allowed may be zeros.
  const parts = typeof text === "string" ? /^(\d{1,15})(?:\.(\d{1,25}))?$/.exec(text) : null;
  const fraction = (parts?.[2] ?? "").replace(/0+$/, "");
  if (parts === null || fraction.length > decimals)
    throw operatorFileRefused(path, decimal, allowed);
  const value = BigInt(`${parts[1]}${fraction.padEnd(decimals, "0")}`);
  if (value > BigInt(max) * 10n ** BigInt(decimals))
    throw operatorFileRefused(path, decimal, allowed);
  return value;
}

/** Writes a number without an exponent: `0.00000655` for 6.55e-6. */
function plainText(value: number): string {
  const [digits = "", exponent] = String(value).split("e");
  // A number with a positive exponent keeps it, and is refused: it is far above every maximum.
  if (exponent === undefined || !exponent.startsWith("-")) return String(value);
  const [whole = "", fraction = ""] = digits.split(".");
  // An exponent of −n puts n − 1 zeros between the point and the digits.
  return `0.${"0".repeat(Number(exponent.slice(1)) - 1)}${whole}${fraction}`;
}

function nameOf(path: string, value: unknown): string | null {
  if (value === undefined) return null;
  if (typeof value === "string" && /^[\w.-]{1,100}$/.test(value)) return value;
  throw operatorFileRefused(
    path,
    value,
    "a name of 1 to 100 letters, digits, dots, dashes and underscores",
  );
}

function listOf(path: string, value: unknown, max: number): Table[] {
  if (!Array.isArray(value))
    // A header has no index: the tables of `prices[0].pools` are headed [[prices.pools]].
    throw operatorFileRefused(
      path,
      value,
      `a list of tables, each headed [[${path.replace(/\[\d+\]/, "")}]]`,
    );
  if (value.length > max)
    throw operatorFileRefused(path, `${value.length} tables`, `at most ${max} tables`);
  return value.map((table, index) => tableOf(`${path}[${index}]`, table));
}
