// Reads the file of prices (SLIPWAY_PRICES_FILE, TOML). Whatever is wrong is refused with the field, what stands there and
// what may: a price that is not understood must not be none.
import { TomlDate } from "smol-toml";
import { parseFile, refused, refuseUnknown, tableOf, type Table } from "./operator-file.ts";
import { builtInPrices, type PoolRates, type Prices, type PriceVersion, type Rates } from "./prices.ts";

const versionFields = ["valid_from", "cpu_core", "memory_gb", "protected_multiplier", "compute", "pools"] as const;
const poolFields = ["provider", "region", "cpu_core", "memory_gb", "compute"] as const;

const hourMs = 3_600_000;
const versionsMost = 1_000;
const poolsMost = 1_000;
/** Billionths of the unit per second; more than any machine costs. */
const priceMost = 1_000_000_000_000n;
const priceDecimals = 9;
const multiplierMost = 1_000_000n;
const multiplierDecimals = 3;
const priceAllowed = `a price per second from 0 to 1000 with at most ${priceDecimals} decimals`;

/**
 * The prices that `text` holds. What a version leaves out stays as it was before, and is built in before the first.
 * `computeTypes`: what may have a price. Throws `OperatorFileRefused`.
 */
export function readPrices(text: string, computeTypes: readonly string[]): Prices {
  const root = parseFile(text);
  refuseUnknown(root, ["prices"], (key) => key);
  const tables = listOf("prices", root["prices"] ?? [], versionsMost);
  const versions: PriceVersion[] = [];
  for (const [index, table] of tables.entries()) {
    const before = versions.at(-1) ?? builtInPrices[0];
    versions.push(readVersion(`prices[${index}]`, table, { before, isFirst: index === 0, computeTypes }));
  }
  const [first, ...others] = versions;
  return first === undefined ? builtInPrices : [first, ...others];
}

type Before = { readonly before: PriceVersion; readonly isFirst: boolean; readonly computeTypes: readonly string[] };

function readVersion(place: string, table: Table, { before, isFirst, computeTypes }: Before): PriceVersion {
  refuseUnknown(table, versionFields, (key) => `${place}.${key}`);
  const rates = readRates(place, table, computeTypes);
  const multiplier = table["protected_multiplier"];
  const multiplierField = `${place}.protected_multiplier`;
  return {
    validFromMs: readValidFrom(`${place}.valid_from`, table["valid_from"], { before, isFirst }),
    core: rates.core ?? before.core,
    gb: rates.gb ?? before.gb,
    compute: new Map([...before.compute, ...(rates.compute ?? [])]),
    protectedThousandths:
      multiplier === undefined
        ? before.protectedThousandths
        : readDecimal(multiplierField, multiplier, {
            ...{ decimals: multiplierDecimals, most: multiplierMost },
            allowed: `a number from 0 to 1000 with at most ${multiplierDecimals} decimals`,
          }),
    pools: table["pools"] === undefined ? before.pools : readPools(`${place}.pools`, table["pools"], computeTypes),
  };
}

function readValidFrom(place: string, given: unknown, { before, isFirst }: Pick<Before, "before" | "isFirst">): number {
  if (isFirst) {
    if (given === undefined) return Number.NEGATIVE_INFINITY;
    throw refused(place, given, "left out: the first prices are valid from the beginning");
  }
  const isTime = given instanceof TomlDate && given.isDateTime() && !given.isLocal();
  const allowed = "a whole hour with its zone, of the form 2026-01-31T00:00:00Z";
  if (!isTime || given.getTime() % hourMs !== 0) throw refused(place, given, allowed);
  if (given.getTime() <= before.validFromMs) throw refused(place, given, "later than that of the previous prices");
  return given.getTime();
}

function readPools(place: string, given: unknown, computeTypes: readonly string[]): PoolRates[] {
  const tables = listOf(place, given, poolsMost);
  const pools = tables.map((table, index): PoolRates => {
    const here = `${place}[${index}]`;
    refuseUnknown(table, poolFields, (key) => `${here}.${key}`);
    const provider = nameOf(`${here}.provider`, table["provider"]);
    if (provider === null) throw refused(`${here}.provider`, undefined, "the name of a provider");
    const region = nameOf(`${here}.region`, table["region"]);
    return { provider, region, ...readRates(here, table, computeTypes) };
  });
  for (const [index, { provider, region }] of pools.entries()) {
    const isTwice = pools.findIndex((other) => other.provider === provider && other.region === region) !== index;
    if (isTwice)
      throw refused(`${place}[${index}]`, [provider, region ?? ""].join("/"), "a pool that is listed only once");
  }
  return pools;
}

function readRates(place: string, table: Table, computeTypes: readonly string[]): Partial<Rates> {
  const core = table["cpu_core"];
  const gb = table["memory_gb"];
  const compute = table["compute"];
  return {
    ...(core === undefined ? {} : { core: readPrice(`${place}.cpu_core`, core) }),
    ...(gb === undefined ? {} : { gb: readPrice(`${place}.memory_gb`, gb) }),
    ...(compute === undefined ? {} : { compute: readCompute(`${place}.compute`, compute, computeTypes) }),
  };
}

function readCompute(place: string, given: unknown, computeTypes: readonly string[]): Map<string, bigint> {
  const table = tableOf(place, given);
  refuseUnknown(table, computeTypes, (key) => `${place}.${key}`);
  return new Map(Object.entries(table).map(([type, price]) => [type, readPrice(`${place}.${type}`, price)]));
}

function readPrice(place: string, given: unknown): bigint {
  return readDecimal(place, given, { decimals: priceDecimals, most: priceMost, allowed: priceAllowed });
}

/** A number exactly as it is written, as a whole number of its last decimal. */
function readDecimal(
  place: string,
  given: unknown,
  { decimals, most, allowed }: { readonly decimals: number; readonly most: bigint; readonly allowed: string },
): bigint {
  // The shortest text of a number is what was written, but for zeros at its end.
  const text = typeof given === "number" ? plainText(given) : given;
  const parts = typeof text === "string" ? /^(\d{1,15})(?:\.(\d{1,25}))?$/.exec(text) : null;
  const fraction = (parts?.[2] ?? "").replace(/0+$/, "");
  if (parts === null || fraction.length > decimals) throw refused(place, given, allowed);
  const value = BigInt(`${parts[1]}${fraction.padEnd(decimals, "0")}`);
  if (value > most) throw refused(place, given, allowed);
  return value;
}

/** `0.00000655` of 6.55e-6. */
function plainText(value: number): string {
  const [digits = "", exponent] = String(value).split("e");
  if (exponent === undefined || !exponent.startsWith("-")) return String(value);
  const [whole = "", fraction = ""] = digits.split(".");
  return `0.${"0".repeat(Number(exponent.slice(1)) - 1)}${whole}${fraction}`;
}

function nameOf(place: string, given: unknown): string | null {
  if (given === undefined) return null;
  if (typeof given === "string" && /^[\w.-]{1,100}$/.test(given)) return given;
  throw refused(place, given, "a name of 1 to 100 letters, digits, dots, dashes and underscores");
}

function listOf(place: string, given: unknown, most: number): Table[] {
  if (!Array.isArray(given))
    throw refused(place, given, `a list of tables, each headed [[${place.replace(/\[\d+\]/, "")}]]`);
  if (given.length > most) throw refused(place, `${given.length} tables`, `at most ${most} tables`);
  return given.map((one, index) => tableOf(`${place}[${index}]`, one));
}
