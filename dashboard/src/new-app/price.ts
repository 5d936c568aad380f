// What a replica is expected to cost by the hour, from the prices that the platform lists. Pure.

/** An entry of the list of hardware. */
export type PricedHardware = {
  readonly compute: string;
  readonly provider: string | null;
  readonly region: string | null;
  readonly price: {
    readonly gpuSecond: number;
    readonly cpuSecond: number;
    readonly memoryGbSecond: number;
  };
};

/** What a replica asks for. */
export type Wanted = {
  readonly compute: readonly string[];
  readonly cpu: number;
  readonly memoryGb: number;
  readonly gpuCount: number;
  readonly provider: string | null;
  readonly region: string | null;
};

const secondsPerHour = 3_600;

/**
 * The lowest and the highest price of an hour of one replica; null: the platform has none of the
 * compute types there.
 */
export function hourlyPrice(
  hardware: readonly PricedHardware[],
  wanted: Wanted,
): { min: number; max: number } | null {
  const prices = hardware
    .filter(
      ({ compute, provider, region }) =>
        wanted.compute.includes(compute) &&
        isSame(provider, wanted.provider) &&
        isSame(region, wanted.region),
    )
    .map(({ compute, price }) => {
      const gpus = compute === "CPU" ? 0 : Math.max(wanted.gpuCount, 1);
      const perSecond =
        gpus * price.gpuSecond +
        wanted.cpu * price.cpuSecond +
        wanted.memoryGb * price.memoryGbSecond;
      return perSecond * secondsPerHour;
    });
  return prices.length === 0 ? null : { min: Math.min(...prices), max: Math.max(...prices) };
}

/** Null stands for everywhere. */
function isSame(there: string | null, wanted: string | null): boolean {
  return there === null || wanted === null || wanted === "global" || there === wanted;
}

const money = new Intl.NumberFormat(undefined, {
  style: "currency",
  currency: "USD",
  maximumSignificantDigits: 3,
});

/** An amount of US dollars, with as many digits as say something. */
export function moneyText(amount: number): string {
  return money.format(amount);
}
