// Says why a replica waits although a pool could have it, and what its owner can do about that.
// Pure.
import { changeField } from "@slipway/contract/advice.ts";
import {
  choosePool,
  couldFit,
  freeGpus,
  gpusOf,
  isAllowed,
  lacking,
  offers,
  shareInPool,
  type FreePool,
  type PoolWish,
} from "./choose-pool.ts";
import { limitNames } from "./fit.ts";
import { anyRegion, type PoolRequest } from "./pool.ts";

/** `lost`: too few of the pool's cards answer, whoever has them. */
type Lack = "lost" | "gpus" | "cores" | "memory";

/** A pool that could have the replica if it were empty, and the resources that it lacks now. */
type Candidate = {
  readonly free: FreePool;
  readonly request: PoolRequest;
  readonly lacks: readonly Lack[];
};

/** Candidates that lack the same resources. */
type Group = { readonly lacks: readonly Lack[]; readonly candidates: readonly Candidate[] };

/** The maximum number of locations in a reason. */
const locationsMax = 3;
/** The distance that lost cards add to a group: more than all its other lacks together. */
const lostDistance = 10;
/** `FreePool` counts cores and memory in thousandths. */
const unit = 1000;

/**
 * Why `choosePool` finds no pool for this wish now, in sentences for the app's owner. `ahead`: the
 * replicas that come first.
 */
export function whyWaiting(
  free: readonly FreePool[],
  wish: PoolWish,
  ahead: readonly PoolWish[],
): string {
  const candidates = wish.flatMap((request) =>
    free
      .filter(({ pool }) => couldFit(pool, request))
      .map((freePool): Candidate => {
        return { free: freePool, request, lacks: lacksOf(freePool, request) };
      }),
  );
  const groups = groupsOf(candidates);
  const [nearest] = groups;
  // True when the pools do not show the reason, which only the driver knows.
  const isUnknown = nearest === undefined || (nearest.lacks.length === 0 && ahead.length === 0);
  if (isUnknown) return allInUse(typesOf(wish), whereOf(wish, free));
  const reason = groups.length === 1 ? reasonOf(nearest, { free, wish }) : reasonByLocation(groups);
  const advice = adviceFor(nearest, { free, wish, ahead });
  return advice === null ? reason : `${reason} ${advice}`;
}

function lacksOf(freePool: FreePool, request: PoolRequest): Lack[] {
  const { compute, gpuCount } = request;
  const isLost = usableOf(freePool, compute) < gpuCount;
  return lacking(freePool, request).map((dimension) => {
    if (dimension === "cores" || dimension === "memory") return dimension;
    return isLost ? "lost" : "gpus";
  });
}

/**
 * Groups the candidates by the resources that they lack. Groups that lack the fewest come first;
 * groups whose cards do not answer come last, since nobody knows when they will.
 */
function groupsOf(candidates: readonly Candidate[]): Group[] {
  const groups = Map.groupBy(candidates, ({ lacks }) => lacks.join());
  const distance = ({ lacks }: Group): number =>
    lacks.includes("lost") ? lacks.length + lostDistance : lacks.length;
  return [...groups.values()]
    .map((members): Group => ({ lacks: members[0]?.lacks ?? [], candidates: members }))
    .toSorted((a, b) => distance(a) - distance(b));
}

/** The reason when all pools of the group lack the same. */
function reasonOf(
  group: Group,
  { free, wish }: { readonly free: readonly FreePool[]; readonly wish: PoolWish },
): string {
  const limitsText = whereOf(wish, free);
  const types = typesOf(group.candidates.map(({ request }) => request));
  const [lack, ...otherLacks] = group.lacks;
  if (lack === undefined)
    return `What is free${limitsText} is for replicas that come first: ${order}.`;
  // False when an allowed pool that has the compute type is too small for the replica.
  const areAllLargeEnough = !wish.some((request) =>
    free.some(
      ({ pool }) =>
        isAllowed(pool, request) && offers(pool, request.compute) && !couldFit(pool, request),
    ),
  );
  if (areAllLargeEnough && otherLacks.length === 0 && countOf(group, lack) === 0) {
    const isSomeLost = group.candidates.some((candidate) => {
      const { compute } = candidate.request;
      const { pool } = candidate.free;
      return usableOf(candidate.free, compute) < gpusOf(pool, compute).count;
    });
    const answering = isSomeLost ? " that answers" : "";
    if (lack === "gpus") return allInUse(types, answering + limitsText);
    if (lack === "lost")
      return `None of the platform's ${types}${limitsText} answers; a replica starts when one does.`;
  }
  const isEverywhere = free.every(({ pool }) =>
    group.candidates.some((candidate) => candidate.free.pool === pool),
  );
  let where = " in a place that suits it";
  if (isEverywhere) where = free.length > 1 ? " in one place" : "";
  return `A replica${limitsText} needs ${needsOf(group, where)}; it starts when there is enough.`;
}

/** The reason when some pools lack other resources than others do. */
function reasonByLocation(groups: readonly Group[]): string {
  const pools = new Set(
    groups.flatMap(({ candidates }) => candidates.map(({ free }) => free.pool)),
  );
  const clauses = groups.slice(0, locationsMax).map((group) => {
    const clause =
      group.lacks.length === 0 ? `others come first (${order})` : `it needs ${needsOf(group, "")}`;
    return pools.size === 1 ? clause : `at ${namesOf(group)} ${clause}`;
  });
  const separator = pools.size === 1 ? "; or " : "; ";
  return `A replica waits: ${clauses.join(separator)}. It starts when one place has enough.`;
}

/** Which replicas come first, in words. */
const order = "protected ones, then those that have waited longer";

function allInUse(types: string, limitsText: string): string {
  return `All of the platform's ${types}${limitsText} is in use; a replica starts when some is free again.`;
}

/** The resources that the pools of a group lack and how much of them is free, in words. */
function needsOf(group: Group, where: string): string {
  const hasGpus = !group.lacks.some((lack) => lack === "gpus" || lack === "lost");
  const types = typesOf(group.candidates.map(({ request }) => request));
  // The resources must be in the same place as GPUs, so the text names these too.
  const isBeside = hasGpus && group.candidates.some(({ request }) => request.gpuCount > 0);
  const needs = group.lacks.map((lack) => {
    const [needed, what] = neededOf(group, lack);
    return `${needed} ${what}, of which ${availableText(lack, countOf(group, lack))}`;
  });
  const place = isBeside ? ` where ${types} is free` : where;
  return `${needs.join(", and ")}${place}`;
}

/** Says how much is free, or how many cards answer. */
function availableText(lack: Lack, count: number): string {
  const amount = count === 0 ? "none" : `only ${count}`;
  const isPlural = count !== 0 && count !== 1;
  if (lack === "lost") return isPlural ? `${amount} answer` : `${amount} answers`;
  return isPlural ? `${amount} are free` : `${amount} is free`;
}

function neededOf({ candidates }: Group, lack: Lack): readonly [amount: number, what: string] {
  const shares = candidates.map(({ free, request }) => shareInPool(free.pool, request));
  if (lack === "cores") return [Math.min(...shares.map(({ cores }) => cores)) / unit, "cores"];
  if (lack === "memory")
    return [Math.min(...shares.map(({ memory }) => memory)) / unit, "GB of memory"];
  const requests = candidates.map(({ request }) => request);
  return [Math.min(...requests.map(({ gpuCount }) => gpuCount)), typesOf(requests)];
}

/** How much the best pool of the group has of the resource that it lacks. */
function countOf({ candidates }: Group, lack: Lack | undefined): number {
  const counts = candidates.map(({ free, request: { compute } }) => {
    if (lack === "cores") return free.cores / unit;
    if (lack === "memory") return free.memory / unit;
    return lack === "lost" ? usableOf(free, compute) : freeGpus(free, compute);
  });
  return Math.max(0, ...counts);
}

/** What the owner or the operator can do so that a replica starts; null: they can only wait. */
function adviceFor(
  nearest: Group,
  situation: {
    readonly free: readonly FreePool[];
    readonly wish: PoolWish;
    readonly ahead: readonly PoolWish[];
  },
): string | null {
  const { free, wish, ahead } = situation;
  const relaxed = relaxedWishes(wish).find(
    (candidate) => choosePool(free, candidate.wish, ahead) !== null,
  );
  if (relaxed !== undefined)
    return `Without ${relaxed.names} one could start now (${changeField}).`;
  if (nearest.lacks.includes("lost"))
    return `The operator has to check the cards of the machine; other types can be listed in compute (${changeField}).`;
  const fields = nearest.lacks
    .filter((lack) => countOf(nearest, lack) > 0)
    .map((lack) => fieldOf[lack]);
  // To need less helps only if something of each lacking resource is free.
  if (fields.length === 0 || fields.length < nearest.lacks.length) return null;
  return `One that needs less could start sooner: ${fields.join(", ")} (${changeField}).`;
}

const fieldOf = { gpus: "gpuCount", lost: "gpuCount", cores: "cpu", memory: "memory" } as const;

/** The wish without each of the limits on where it may run, and then without all of them. */
function relaxedWishes(wish: PoolWish): { readonly names: string; readonly wish: PoolWish }[] {
  const [first] = wish;
  if (first === undefined) return [];
  const { tier, provider, region } = first;
  const limits: { readonly name: string; readonly change: Partial<PoolRequest> }[] = [];
  if (tier === "protected")
    limits.push({ name: "computeTier protected", change: { tier: "interruptible" } });
  if (provider !== null) limits.push({ name: `provider ${provider}`, change: { provider: null } });
  if (region !== null && region !== anyRegion)
    limits.push({ name: `region ${region}`, change: { region: null } });
  const sets = limits.map((limit) => [limit]);
  if (limits.length > 1) sets.push(limits);
  return sets.map((set) => {
    const relaxed = (request: PoolRequest): PoolRequest => {
      let changed = request;
      for (const { change } of set) changed = { ...changed, ...change };
      return changed;
    };
    return { names: set.map(({ name }) => name).join(" and "), wish: wish.map(relaxed) };
  });
}

/**
 * The limits of a wish, in words. The tier counts only where it rules out pools with the compute
 * type.
 */
function whereOf(wish: PoolWish, free: readonly FreePool[]): string {
  const [first] = wish;
  if (first === undefined) return "";
  const isTierShort = wish.some((request) =>
    free.some(
      ({ pool }) =>
        offers(pool, request.compute) &&
        isAllowed(pool, { ...request, tier: "interruptible" }) &&
        !isAllowed(pool, request),
    ),
  );
  const where = limitNames({ ...first, tier: isTierShort ? "protected" : "interruptible" });
  return where.length === 0 ? "" : ` with ${where.join(" and ")}`;
}

function namesOf({ candidates }: Group): string {
  const names = [...new Set(candidates.map(({ free }) => free.pool.name))];
  const others = names.length - locationsMax;
  return others <= 0
    ? names.join(" and ")
    : `${names.slice(0, locationsMax).join(", ")} and ${others} more`;
}

function typesOf(requests: readonly PoolRequest[]): string {
  return [...new Set(requests.map(({ compute }) => compute))].join(" or ");
}

function usableOf({ pool }: FreePool, compute: string): number {
  return gpusOf(pool, compute).usable;
}
