// How many replicas a project may have, and what keeps an app from having any: the scheduler declares what it asks, whoever
// keeps plans and budgets implements it. The rest is pure: how much room a limit leaves, and what must go above a lowered one.
import type { AppId, ProjectId, ReplicaId } from "#lib/ids.ts";

/** Limits of a project; null: none. */
export type ReplicaLimits = {
  /** What sets them, for people: `The plan "hobby"`. */
  readonly name: string;
  readonly replicasMax: number | null;
  readonly gpusMax: number | null;
};

/** Asked at every look; answers come from memory. */
export interface Allowance {
  limitsOf(projectId: ProjectId): ReplicaLimits;
  /** Why the app is to have no replicas and its calls are refused, in a sentence; undefined: it may have some. */
  stopOf(projectId: ProjectId, appId: AppId): string | undefined;
  /** Calls `listener` after each change of a project (null: of any). Returns how to end it. */
  onChange(listener: (projectId: ProjectId | null) => void): () => void;
}

/** Allows everything. */
export const everythingAllowed: Allowance = {
  limitsOf: () => ({ name: "", replicasMax: null, gpusMax: null }),
  stopOf: () => undefined,
  onChange: () => () => undefined,
};

/** A replica that counts: it starts or serves, and is on no trial. */
export type CountedReplica = {
  readonly replicaId: ReplicaId;
  readonly isStarting: boolean;
  readonly gpus: number;
  /** Calls that it works on. */
  readonly running: number;
  readonly beganAtMs: number;
};

/** Replicas that take no more calls and have not ended. */
export type Leaving = { readonly replicas: number; readonly gpus: number };

/**
 * How many replicas of so many GPUs each may be added. Those that are leaving help nobody, so they may come on top, but no
 * more than the limit once again: else a project could have any number of them by deploying again and again.
 */
export function slotsLeft(
  limits: ReplicaLimits,
  has: { readonly counted: readonly CountedReplica[]; readonly leaving: Leaving },
  gpusEach: number,
): number {
  const { counted, leaving } = has;
  const places = leftOf(limits.replicasMax, counted.length, leaving.replicas);
  const gpus = leftOf(limits.gpusMax, sumOf(counted), leaving.gpus);
  return Math.max(0, gpusEach === 0 ? places : Math.min(places, Math.floor(gpus / gpusEach)));
}

function leftOf(max: number | null, used: number, leaving: number): number {
  return max === null ? Number.POSITIVE_INFINITY : Math.min(max, 2 * max - leaving) - used;
}

/**
 * What must go for the limits to be kept: replicas without calls first, then the youngest. One that starts is left until it
 * is ready; for GPUs only what has some goes.
 */
export function beyondLimits(limits: ReplicaLimits, counted: readonly CountedReplica[]): ReadonlySet<ReplicaId> {
  const { replicasMax, gpusMax } = limits;
  let [replicas, gpus] = [counted.length, sumOf(counted)];
  const going = new Set<ReplicaId>();
  const order = counted
    .filter((replica) => !replica.isStarting)
    .toSorted((left, right) => left.running - right.running || right.beganAtMs - left.beganAtMs);
  for (const replica of order) {
    const hasTooMany = replicasMax !== null && replicas > replicasMax;
    const hasTooManyGpus = gpusMax !== null && gpus > gpusMax && replica.gpus > 0;
    if (!hasTooMany && !hasTooManyGpus) continue;
    going.add(replica.replicaId);
    replicas--;
    gpus -= replica.gpus;
  }
  return going;
}

/** Why not even one replica of so many GPUs may ever start; undefined: one may. */
export function neverFits({ name, gpusMax }: ReplicaLimits, gpusEach: number): string | undefined {
  if (gpusMax === null || gpusEach <= gpusMax) return undefined;
  const allowed = gpusMax === 0 ? "no GPUs" : `the project ${gpusMax} GPU${gpusMax === 1 ? "" : "s"}`;
  return `${name} allows ${allowed}, and a replica of the app needs ${gpusEach}. Request fewer (gpuCount, compute), or ask the operator for another plan.`;
}

/** What a start waits for, in a sentence. */
export function heldBackReason(
  { name, replicasMax, gpusMax }: ReplicaLimits,
  counted: readonly CountedReplica[],
): string {
  const isFull = gpusMax === null || (replicasMax !== null && counted.length >= replicasMax);
  const [max, what] = isFull ? [replicasMax ?? 0, "replica"] : [gpusMax, "GPU"];
  const which = max === 1 ? `1 ${what}, which is` : `${max} ${what}s, which are`;
  return `${name} allows the project ${which} in use or about to end; another one starts when there is capacity again.`;
}

function sumOf(counted: readonly CountedReplica[]): number {
  return counted.reduce((sum, { gpus }) => sum + gpus, 0);
}
