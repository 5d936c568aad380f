// Says why an app fits into no pool, and what would fit; and what it asks for that no pool can give
// it alone. Pure.
import { howToChange, missingCompute, type Advised } from "@slipway/contract/advice.ts";
import { appFields } from "@slipway/contract/app-fields.ts";
import { computeOf, couldFit, gpusOf, isAllowed, offers, type PoolWish } from "./choose-pool.ts";
import type { Pool, PoolRequest } from "./pool.ts";

/** A sentence lists no more sizes of pools than this. */
const sizesShown = 3;

/** What is known of an app's wish; absent: not yet, so that it refuses nothing. */
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
 * The wish of a replica with these settings. `present`: the types to try where none is known yet.
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
  if (first === undefined || wish.some((request) => pools.some((pool) => couldFit(pool, request))))
    return null;
  const types = wish.map(({ compute }) => compute);
  const withType = pools.filter((pool) => types.some((type) => offers(pool, type)));
  if (withType.length === 0) return missingCompute(types, present, advised);
  const allowed = withType.filter((pool) => isAllowed(pool, first));
  const isGpu = types.some((type) => type !== "CPU");
  const known = settings.compute === undefined ? [] : types;
  if (allowed.length === 0) return whyNotThere(withType, { ...first, types: known, advised });
  const asked = [
    ...(isGpu && first.gpuCount > 0
      ? [`${first.gpuCount} GPU${first.gpuCount === 1 ? "" : "s"}`]
      : []),
    ...(settings.cpu === undefined ? [] : [`${rounded(settings.cpu)} cores`]),
    ...(settings.memory === undefined ? [] : [`${rounded(settings.memory)} GB`]),
  ].join(", ");
  const fields = isGpu ? "cpu, memory, gpuCount" : "cpu, memory";
  const on = known.length === 0 ? "" : ` on ${known.join(" or ")}`;
  return `A replica of the app needs ${asked.replace(/, (?=[^,]*$)/, " and ")}${on}, but the platform has at most ${largestOf(allowed, isGpu ? types : null)} in one place. Request less: ${fields}${howToChange(advised)}, or hardware in the TOML file.`;
}

/** The most cores and GB that a replica can ask for and have there, whatever is in use. */
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

/** What the app asks for that is only shared here, in sentences for the build log. */
export function sharedWarnings(pools: readonly Pool[], settings: PartialWish): string[] {
  const fitting = pools.filter((pool) =>
    wishOf(settings).some((request) => couldFit(pool, request)),
  );
  if (fitting.length === 0) return [];
  const cores = Math.max(...fitting.map((pool) => pool.cores));
  const memoryGb = Math.max(...fitting.map((pool) => pool.memoryGb));
  const { cpu = 0, memory = 0 } = settings;
  return [
    ...(cpu > cores
      ? [`cpu is ${cpu}, but apps have only ${cores} cores here, which they share.`]
      : []),
    ...(memory > memoryGb
      ? [
          `memory is ${memory} GB, but apps have only ${memoryGb} GB here, which they share; a replica that needs more is ended.`,
        ]
      : []),
  ];
}

/** What of a request limits the pools that it may run in, in words. */
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

function whyNotThere(
  pools: readonly Pool[],
  wanted: Pick<PoolRequest, "provider" | "region" | "tier"> & {
    readonly types: readonly string[];
    readonly advised: Advised;
  },
): string {
  const { types, provider, region, tier, advised } = wanted;
  const where = limitNames({ provider, region, tier });
  const there = pools.map(
    (pool) => `${pool.provider ?? "any provider"} ${pool.region ?? "any region"} (${pool.tier})`,
  );
  const asked =
    types.length === 0
      ? where.join(", ")
      : `compute ${types.join(" or ")} with ${where.join(", ")}`;
  return `The app requests ${asked}, but the platform has ${types.length === 0 ? "only" : "it only with"} ${[...new Set(there)].join(", ")}. Change provider, region or computeTier, or leave them out${howToChange(advised)}.`;
}

type Size = { readonly cores: number; readonly memoryGb: number; readonly gpus: number | null };

/**
 * What one replica can have at most, by pool: none of these is larger than another in everything.
 * `types` null: no GPUs.
 */
function largestOf(pools: readonly Pool[], types: readonly string[] | null): string {
  const sizes = pools.map((pool): Size => {
    const cards = (types ?? []).map((type) => gpusOf(pool, type).count);
    const gpus = types === null ? null : Math.min(Math.max(...cards), appFields.gpuCount.max);
    return { ...replicaMaxOf(pool), gpus };
  });
  const distinct = [...new Map(sizes.map((size) => [sizeText(size), size])).values()];
  const largest = distinct
    .filter((size) => !distinct.some((other) => other !== size && isWithin(size, other)))
    .toSorted(
      (one, other) =>
        gpusIn(other) - gpusIn(one) || other.cores - one.cores || other.memoryGb - one.memoryGb,
    );
  const others = largest.length - sizesShown;
  const texts = largest.slice(0, sizesShown).map(sizeText);
  if (others > 0) texts.push(`${others} other size${others === 1 ? "" : "s"}`);
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
  const cards = gpus === null ? "" : `${gpus} GPU${gpus === 1 ? "" : "s"}, `;
  return `${cards}${cores} cores and ${memoryGb} GB`;
}

function rounded(amount: number): number {
  return Math.round(amount * 1000) / 1000;
}
