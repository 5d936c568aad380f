// Says why an app fits into no pool, and what would fit. Warns of resources that an app can only
// share. Pure.
import { howToChange, missingCompute, type Advised } from "@slipway/contract/advice.ts";
import { appFields } from "@slipway/contract/app-fields.ts";
import { computeOf, couldFit, gpusOf, isAllowed, offers, type PoolWish } from "./choose-pool.ts";
import type { Pool, PoolRequest } from "./pool.ts";

/** The maximum number of pool sizes in a sentence. */
const sizesShown = 3;

/**
 * The settings of an app that say which pools suit it. An absent setting is not known yet, and
 * suits every pool.
 */
export type PartialWish = {
  readonly compute?: readonly string[] | undefined;
  readonly gpuCount?: number | undefined;
  readonly cpu?: number | undefined;
  readonly memory?: number | undefined;
  readonly provider?: string | null | undefined;
  readonly region?: string | null | undefined;
  readonly computeTier?: string | undefined;
};

/**
 * The wish of a replica with these settings. `present`: the compute types to try when the settings
 * name none yet. Any other unknown setting gets the value that suits the most pools.
 */
export function wishOf(settings: PartialWish, present: readonly string[] = []): PoolWish {
  const { compute = present, cpu = 0, memory = 0, provider = null, region = null } = settings;
  return compute.map((type) => ({
    compute: type,
    cpuCores: cpu,
    memoryGb: memory,
    provider,
    region,
    gpuCount: type === "CPU" ? 0 : (settings.gpuCount ?? 1),
    tier: settings.computeTier ?? "interruptible",
  }));
}

/**
 * Why no pool could ever have such a replica, in a sentence that says what would fit; null: one
 * could.
 */
export function whyNever(
  pools: readonly Pool[],
  settings: PartialWish,
  advised: Advised = "owner",
): string | null {
  const present = computeOf(pools);
  const wish = wishOf(settings, present);
  const [first] = wish;
  const canFit = wish.some((request) => pools.some((pool) => couldFit(pool, request)));
  if (first === undefined || canFit) return null;
  const types = wish.map(({ compute }) => compute);
  const withType = pools.filter((pool) => types.some((type) => offers(pool, type)));
  if (withType.length === 0) return missingCompute(types, present, advised);
  const allowed = withType.filter((pool) => isAllowed(pool, first));
  const isGpu = types.some((type) => type !== "CPU");
  const knownTypes = settings.compute === undefined ? [] : types;
  if (allowed.length === 0) return whyNotThere(withType, { ...first, types: knownTypes, advised });
  const needs: string[] = [];
  if (isGpu && first.gpuCount > 0) needs.push(gpusText(first.gpuCount));
  if (settings.cpu !== undefined) needs.push(`${rounded(settings.cpu)} cores`);
  if (settings.memory !== undefined) needs.push(`${rounded(settings.memory)} GB`);
  // The last comma becomes an "and".
  const needsText = needs.join(", ").replace(/, (?=[^,]*$)/, " and ");
  const fields = isGpu ? "cpu, memory, gpuCount" : "cpu, memory";
  const onTypes = knownTypes.length === 0 ? "" : ` on ${knownTypes.join(" or ")}`;
  const largest = largestOf(allowed, isGpu ? types : null);
  return `A replica of the app needs ${needsText}${onTypes}, but the platform has at most ${largest} in one place. Request less: ${fields}${howToChange(advised)}, or hardware in the TOML file.`;
}

/** The maximum cores and GB that a replica can ask for and get in the empty pool. */
export function replicaMaxOf({
  cores,
  memoryGb,
  overcommit,
}: Pool): Pick<Pool, "cores" | "memoryGb"> {
  return {
    cores: rounded(Math.min(cores * overcommit, appFields.cpu.max)),
    memoryGb: rounded(Math.min(memoryGb * overcommit, appFields.memory.max)),
  };
}

/**
 * Warns, in sentences for the build log, when an app asks for more cores or memory than its pools
 * have, so that it only shares them.
 */
export function sharedWarnings(pools: readonly Pool[], settings: PartialWish): string[] {
  const fitting = pools.filter((pool) =>
    wishOf(settings).some((request) => couldFit(pool, request)),
  );
  if (fitting.length === 0) return [];
  const cores = Math.max(...fitting.map((pool) => pool.cores));
  const memoryGb = Math.max(...fitting.map((pool) => pool.memoryGb));
  const { cpu = 0, memory = 0 } = settings;
  const warnings: string[] = [];
  if (cpu > cores)
    warnings.push(`cpu is ${cpu}, but apps have only ${cores} cores here, which they share.`);
  if (memory > memoryGb)
    warnings.push(
      `memory is ${memory} GB, but apps have only ${memoryGb} GB here, which they share; a replica that needs more is ended.`,
    );
  return warnings;
}

/** Names the parts of a request that limit the pools it may run in. */
export function limitNames({
  provider,
  region,
  tier,
}: Pick<PoolRequest, "provider" | "region" | "tier">): string[] {
  return [
    ...(provider === null ? [] : [`provider ${provider}`]),
    ...(region === null ? [] : [`region ${region}`]),
    ...(tier === "protected" ? ["computeTier protected"] : []),
  ];
}

/**
 * Why none of `pools`, which have the right compute type, suits the wanted location and tier.
 * `types`: the compute types to name; empty: the settings name none yet.
 */
function whyNotThere(
  pools: readonly Pool[],
  wanted: Pick<PoolRequest, "provider" | "region" | "tier"> & {
    readonly types: readonly string[];
    readonly advised: Advised;
  },
): string {
  const { types, provider, region, tier, advised } = wanted;
  const limits = limitNames({ provider, region, tier });
  const locations = pools.map((pool) =>
    [
      pool.provider === null ? "any provider" : `provider ${pool.provider}`,
      pool.region === null ? "any region" : `region ${pool.region}`,
      `computeTier ${pool.tier}`,
    ].join(", "),
  );
  const present = [...new Set(locations)].join("; or ");
  let request = limits.join(", ");
  let onlyWords = "only";
  if (types.length > 0) {
    request = `compute ${types.join(" or ")} with ${request}`;
    onlyWords = "it only with";
  }
  return `The app requests ${request}, but the platform has ${onlyWords} ${present}. Change provider, region or computeTier, or leave them out${howToChange(advised)}.`;
}

/** How much one replica can have; `gpus` null: GPUs are not named. */
type Size = { readonly cores: number; readonly memoryGb: number; readonly gpus: number | null };

/**
 * The largest sizes that one replica can have in these pools, in words; sizes that fit within
 * another one are left out. `types` null: no GPUs.
 */
function largestOf(pools: readonly Pool[], types: readonly string[] | null): string {
  const sizes = pools.map((pool): Size => {
    const counts = (types ?? []).map((type) => gpusOf(pool, type).count);
    const gpus = types === null ? null : Math.min(Math.max(...counts), appFields.gpuCount.max);
    return { ...replicaMaxOf(pool), gpus };
  });
  const sizesByText = new Map(sizes.map((size) => [sizeText(size), size]));
  const distinct = [...sizesByText.values()];
  const isInOther = (size: Size): boolean =>
    distinct.some((other) => other !== size && isWithin(size, other));
  const largest = distinct
    .filter((size) => !isInOther(size))
    .toSorted((a, b) => gpusIn(b) - gpusIn(a) || b.cores - a.cores || b.memoryGb - a.memoryGb);
  const others = largest.length - sizesShown;
  const texts = largest.slice(0, sizesShown).map(sizeText);
  if (others > 0) texts.push(others === 1 ? "1 other size" : `${others} other sizes`);
  return texts.join(", or ");
}

function isWithin(size: Size, other: Size): boolean {
  return (
    size.cores <= other.cores && size.memoryGb <= other.memoryGb && gpusIn(size) <= gpusIn(other)
  );
}

function gpusIn({ gpus }: Size): number {
  return gpus ?? 0;
}

function sizeText({ cores, memoryGb, gpus }: Size): string {
  const cards = gpus === null ? "" : `${gpusText(gpus)}, `;
  return `${cards}${cores} cores and ${memoryGb} GB`;
}

function gpusText(count: number): string {
  return count === 1 ? "1 GPU" : `${count} GPUs`;
}

/** Rounds to thousandths. */
function rounded(amount: number): number {
  return Math.round(amount * 1000) / 1000;
}
