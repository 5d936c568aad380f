// Reads the file of pools (SLIPWAY_POOLS_FILE, TOML). Refuses a file with any error, and names the
// field, the value and what is allowed: a mistake must not silently leave out a pool. Pure.
import { computeTypes } from "@slipway/contract/app-choices.ts";
import * as file from "#lib/operator-file.ts";
import { anyRegion, type Pool } from "./pool.ts";

/** GPUs of one type, as the file lists them. */
export type ListedGpus = {
  readonly compute: string;
  readonly count: number;
  readonly memoryGb: number;
};

/** A pool as the file lists it. The machine decides later which cards are its GPUs. */
export type ListedPool = Omit<Pool, "gpus"> & { readonly gpus: readonly ListedGpus[] };

/** The maximum number of pools: each choice of a pool goes through all of them. */
const poolsMax = 100;
const namesAllowed = "1 to 63 letters, digits, dashes and underscores";
const nameForm = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;
const tiers = ["protected", "interruptible"] as const;
const gpuTypes = computeTypes.filter((type) => type !== "CPU");
const poolFields = [
  "name",
  "provider",
  "region",
  "tier",
  "cpu_apps",
  "cores",
  "memory_gb",
  "overcommit",
  "gpus",
];
const gpuFields = ["compute", "count", "memory_gb"];

/**
 * Reads the pools. `providers`: the allowed values of the field provider. Throws
 * `OperatorFileRefused`.
 */
export function readPoolFile(text: string, providers: readonly string[]): ListedPool[] {
  const root = file.parseFile(text);
  file.refuseUnknown(root, ["pools"], (key) => key);
  const tables = listOf("pools", root["pools"], poolsMax);
  if (tables.length === 0)
    throw file.operatorFileRefused("pools", undefined, "a list of [[pools]]");
  const pools = tables.map((table, index) => readPool(`pools[${index}]`, table, providers));
  const names = pools.map(({ name }) => name);
  file.refuseTwice(names, (index) => `pools[${index}].name`, "a name that no other pool has");
  return pools;
}

function readPool(path: string, table: file.Table, providers: readonly string[]): ListedPool {
  refusePrices(path, table);
  file.refuseUnknown(table, poolFields, (key) => `${path}.${key}`);
  /** The path and the value of a field. */
  const at = (field: string) => [`${path}.${field}`, table[field]] as const;
  const gpus = listOf(`${path}.gpus`, table["gpus"] ?? [], gpuTypes.length).map((entry, index) =>
    readGpus(`${path}.gpus[${index}]`, entry),
  );
  const types = gpus.map(({ compute }) => compute);
  file.refuseTwice(
    types,
    (index) => `${path}.gpus[${index}].compute`,
    "a type that is listed only once",
  );
  const region = table["region"] === undefined ? null : readName(...at("region"));
  if (region === anyRegion)
    throw file.operatorFileRefused(`${path}.region`, region, "left out for every region");
  return {
    name: readName(...at("name")),
    provider:
      table["provider"] === undefined ? null : file.readChoice(...at("provider"), providers),
    region,
    tier: table["tier"] === undefined ? "protected" : file.readChoice(...at("tier"), tiers),
    takesCpu: readBoolean(...at("cpu_apps")),
    // The minima are the least cores and memory that an app can ask for. The maxima are far beyond
    // any real pool, and only catch mistakes.
    cores: file.readNumber(...at("cores"), { min: 0.25, max: 100_000 }),
    memoryGb: file.readNumber(...at("memory_gb"), { min: 0.05, max: 10_000_000 }),
    overcommit:
      table["overcommit"] === undefined
        ? 1
        : file.readNumber(...at("overcommit"), { min: 1, max: 1000 }),
    gpus,
  };
}

function readGpus(path: string, table: file.Table): ListedGpus {
  refusePrices(path, table);
  file.refuseUnknown(table, gpuFields, (key) => `${path}.${key}`);
  const { compute, count, memory_gb: memoryGb } = table;
  return {
    // The order of these members decides which of two errors is reported.
    count: file.readNumber(`${path}.count`, count, { min: 1, max: 10_000, isWhole: true }),
    compute: file.readChoice(`${path}.compute`, compute, gpuTypes),
    // 0 stands for an unknown size.
    memoryGb:
      memoryGb === undefined
        ? 0
        : file.readNumber(`${path}.memory_gb`, memoryGb, { min: 1, max: 10_000 }),
  };
}

/** Apps do not choose their pool, so a pool must not decide what they pay. */
function refusePrices(path: string, table: file.Table): void {
  const key = ["price", "prices"].find((name) => Object.hasOwn(table, name));
  if (key === undefined) return;
  throw new file.OperatorFileRefused(
    `${path}.${key} is unknown: a pool has no prices of its own. They depend on compute type, provider and region, in the file that SLIPWAY_PRICES_FILE names (docs/guides/billing-and-coupons.md).`,
  );
}

function readName(path: string, value: unknown): string {
  if (typeof value === "string" && nameForm.test(value)) return value;
  throw file.operatorFileRefused(path, value, namesAllowed);
}

/** Reads a field that is true by default. */
function readBoolean(path: string, value: unknown): boolean {
  if (value === undefined || typeof value === "boolean") return value ?? true;
  throw file.operatorFileRefused(path, value, "true or false");
}

/** The tables of a list, which may have `lengthMax` at most; none when the field is missing. */
function listOf(path: string, value: unknown, lengthMax: number): file.Table[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw file.operatorFileRefused(path, value, `a list of [[${path}]]`);
  if (value.length > lengthMax)
    throw file.operatorFileRefused(path, `${value.length} entries`, `at most ${lengthMax}`);
  return value.map((entry, index) => file.tableOf(`${path}[${index}]`, entry));
}
