// Computes the price of a second of a replica, by time and location, and of a second of storage.
// Prices are whole billionths of the currency's unit, so that rates are exact; `price-file.ts`
// reads them. Pure.
import { boundsOf, periodOf } from "#billing/period.ts";

/**
 * The prices of a second, in billionths of the currency's unit: of a core, of a GB of memory, and
 * of an accelerator of each compute type.
 */
export type Rates = {
  readonly core: bigint;
  readonly gb: bigint;
  readonly compute: ReadonlyMap<string, bigint>;
};

/** Overrides for replicas of a provider, or of one of its regions. */
export type PoolRates = Partial<Rates> & {
  readonly provider: string;
  /** Null: all regions of the provider. */
  readonly region: string | null;
};

/** The prices from some instant on. */
export type PriceVersion = Rates & {
  /**
   * The start of an hour, so that each hour has one price; the first version has no lower bound.
   */
  readonly validFromMs: number;
  /** The factor for the tier `protected`, in thousandths. */
  readonly protectedThousandths: bigint;
  /**
   * The price of a GB of storage for a month (UTC), in billionths of the unit, beyond what each
   * project has free.
   */
  readonly storageGbMonth: bigint;
  /** How much storage each project has free, in thousandths of a GB. */
  readonly storageFree: bigint;
  /** The overrides; a price that no override names is the price of the version. */
  readonly pools: readonly PoolRates[];
};

/** Ordered by start of validity; the first has no lower bound. */
export type Prices = readonly [PriceVersion, ...PriceVersion[]];

/** The resources of a replica. Cores and memory are in thousandths of a core and of a GB. */
export type PricedResources = {
  readonly compute: string;
  readonly computeTier: string;
  readonly provider: string | null;
  readonly region: string | null;
  readonly gpuCount: number;
  readonly coreThousandths: bigint;
  readonly gbThousandths: bigint;
};

const thousand = 1000n;
/** One unit of the currency, in the units of `rateAt`. */
const rateUnit = 1e15;

/** The cost of a second at an instant, in 10^-15 of the currency's unit. */
export function rateAt(prices: Prices, resources: PricedResources, atMs: number): bigint {
  const version = versionAt(prices, atMs);
  const { compute, computeTier, gpuCount, coreThousandths, gbThousandths } = resources;
  const pools = poolsOf(version, resources);
  const corePrice = firstPrice(pools, ({ core }) => core) ?? version.core;
  const gbPrice = firstPrice(pools, ({ gb }) => gb) ?? version.gb;
  const poolPrice = firstPrice(pools, (pool) => pool.compute?.get(compute));
  // A compute type without an accelerator, such as CPU, has no price of its own.
  const acceleratorPrice = poolPrice ?? version.compute.get(compute) ?? 0n;
  const acceleratorCost = BigInt(gpuCount) * thousand * acceleratorPrice;
  const cost = acceleratorCost + coreThousandths * corePrice + gbThousandths * gbPrice;
  const factorThousandths = computeTier === "protected" ? version.protectedThousandths : thousand;
  // Billionths for thousandths of a resource, times a factor in thousandths, make 10^-15.
  return cost * factorThousandths;
}

/**
 * The cost of a second of storage of this size (in thousandths of a GB) at an instant, in 10^-15 of
 * the unit. Every month has the same price, however long it is, so the rate of a second is rounded.
 * The rounding changes the cost of a month by far less than a micro-unit.
 */
export function storageRateAt(prices: Prices, gbThousandths: bigint, atMs: number): bigint {
  const { storageGbMonth, storageFree } = versionAt(prices, atMs);
  if (gbThousandths <= storageFree) return 0n;
  const { fromMs, toMs } = boundsOf(periodOf(atMs));
  const seconds = BigInt(toMs - fromMs) / 1000n;
  // The last factor makes 10^-15 of billionths for thousandths of a GB.
  const monthCost = (gbThousandths - storageFree) * storageGbMonth * thousand;
  return (monthCost + seconds / 2n) / seconds;
}

function versionAt(prices: Prices, atMs: number): PriceVersion {
  // The first version has no lower bound, so a version is always found.
  return prices.findLast(({ validFromMs }) => validFromMs <= atMs) ?? prices[0];
}

type PricedLocation = Pick<PricedResources, "compute" | "provider" | "region">;

/** Prices of a second in the currency's unit: of an accelerator of the type, a core and a GB. */
type SecondPrices = {
  readonly gpuSecond: number;
  readonly cpuSecond: number;
  readonly memoryGbSecond: number;
};

/** Returns the present prices at a location. */
export type PriceOf = (where: PricedLocation) => SecondPrices;

/** The prices at a location and an instant, without the factor of a tier. */
export function priceAt(prices: Prices, where: PricedLocation, atMs: number): SecondPrices {
  // The price of one resource is the cost of a replica that has nothing else, at the factor 1.
  const nothing = {
    gpuCount: 0,
    coreThousandths: 0n,
    gbThousandths: 0n,
    computeTier: "interruptible",
  };
  const priceOf = (amount: Partial<PricedResources>): number =>
    // `amount` takes the place of one of the zeros.
    Number(rateAt(prices, { ...where, ...nothing, ...amount }, atMs)) / rateUnit;
  return {
    gpuSecond: priceOf({ gpuCount: 1 }),
    cpuSecond: priceOf({ coreThousandths: thousand }),
    memoryGbSecond: priceOf({ gbThousandths: thousand }),
  };
}

/** The overrides for the location: first those of its region, then those of its provider. */
function poolsOf({ pools }: PriceVersion, { provider, region }: PricedResources): PoolRates[] {
  const ofProvider = pools.filter((pool) => pool.provider === provider);
  return [
    ...ofProvider.filter((pool) => pool.region !== null && pool.region === region),
    ...ofProvider.filter((pool) => pool.region === null),
  ];
}

/** The first price that one of the overrides names; undefined: none does. */
function firstPrice(
  pools: readonly PoolRates[],
  priceOf: (pool: PoolRates) => bigint | undefined,
): bigint | undefined {
  for (const pool of pools) {
    const price = priceOf(pool);
    if (price !== undefined) return price;
  }
  return undefined;
}

/**
 * The prices of a platform without a prices file, in US dollars: the tier `protected` costs twice
 * as much, and each project has 100 GB free, above which a GB costs 0.05 a month.
 */
export const builtInPrices: Prices = [
  {
    validFromMs: Number.NEGATIVE_INFINITY,
    core: 6_550n,
    gb: 2_220n,
    protectedThousandths: 2_000n,
    storageGbMonth: 50_000_000n,
    storageFree: 100_000n,
    compute: new Map([
      ["BLACKWELL_B200", 1_670_000n],
      ["HOPPER_H200", 1_166_000n],
      ["HOPPER_H100", 944_000n],
      ["BLACKWELL_RTX6000", 694_000n],
      ["AMPERE_A100_80GB", 583_000n],
      ["AMPERE_A100_40GB", 555_000n],
      ["ADA_L40", 542_000n],
      ["AMPERE_A10", 306_000n],
      ["ADA_L4", 222_000n],
      ["TURING_T4", 164_000n],
    ]),
    pools: [],
  },
];
