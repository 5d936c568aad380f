// How many replicas a project may have, and what stops an app from having any. Declares the
// interface that the scheduler queries; the owner of plans and budgets implements it. The functions
// are pure: how many slots a limit leaves, and which replicas end after it is lowered.
import type { AppId, ProjectId, ReplicaId } from "#lib/ids.ts";

/** Limits of a project; null for no limit. */
export type ReplicaLimits = {
  /** The source of the limits, for messages: `The plan "hobby"`. */
  readonly name: string;
  readonly replicasMax: number | null;
  readonly gpusMax: number | null;
};

/** Why an app may have no replicas, in a sentence. `code`: the fault that its calls get. */
export type AppStop = { readonly code: "budget_reached" | "app_stopped"; readonly reason: string };

/** Queried in every turn; answers come from memory. */
export interface Allowance {
  limitsOf(projectId: ProjectId): ReplicaLimits;
  /** Why the app may have no replicas and its calls are refused; undefined: it may have some. */
  stopOf(projectId: ProjectId, appId: AppId): AppStop | undefined;
  /**
   * Calls `listener` after each change of a project's limits or stops; null: any project may have
   * changed. Returns a function that removes the listener.
   */
  onChange(listener: (projectId: ProjectId | null) => void): () => void;
}

/** A replica that counts towards limits: it starts or serves, and is not on trial. */
export type CountedReplica = {
  readonly replicaId: ReplicaId;
  readonly isStarting: boolean;
  readonly gpus: number;
  /** The number of calls that the replica is working on. */
  readonly running: number;
  readonly beganAtMs: number;
};

/** How many replicas take no more calls and have not exited, and how many GPUs they have. */
export type Leaving = { readonly replicas: number; readonly gpus: number };

/**
 * How many replicas with this many GPUs each may be added. Leaving replicas count only if they are
 * more than the limit, and then only those in excess: otherwise a project could have any number of
 * them by deploying again and again.
 */
export function slotsLeft(
  limits: ReplicaLimits,
  usage: { readonly counted: readonly CountedReplica[]; readonly leaving: Leaving },
  gpusEach: number,
): number {
  const { counted, leaving } = usage;
  const replicas = freeOf(limits.replicasMax, counted.length, leaving.replicas);
  if (gpusEach === 0) return Math.max(0, replicas);
  const gpus = freeOf(limits.gpusMax, sumOf(counted), leaving.gpus);
  return Math.max(0, Math.min(replicas, Math.floor(gpus / gpusEach)));
}

/** How much a limit leaves; negative: more than the limit is used. */
function freeOf(max: number | null, used: number, leaving: number): number {
  if (max === null) return Number.POSITIVE_INFINITY;
  const excess = Math.max(0, leaving - max);
  return max - excess - used;
}

/**
 * The replicas to end so that the limits hold: those with the fewest calls first, and of these the
 * youngest. A starting replica stays until it is ready; for the GPU limit only replicas with GPUs
 * end.
 */
export function beyondLimits(
  limits: ReplicaLimits,
  counted: readonly CountedReplica[],
): ReadonlySet<ReplicaId> {
  const { replicasMax, gpusMax } = limits;
  let replicas = counted.length;
  let gpus = sumOf(counted);
  const ending = new Set<ReplicaId>();
  const order = counted
    .filter((replica) => !replica.isStarting)
    .toSorted((left, right) => left.running - right.running || right.beganAtMs - left.beganAtMs);
  for (const replica of order) {
    const hasTooMany = replicasMax !== null && replicas > replicasMax;
    const hasTooManyGpus = gpusMax !== null && gpus > gpusMax && replica.gpus > 0;
    if (!hasTooMany && !hasTooManyGpus) continue;
    ending.add(replica.replicaId);
    replicas--;
    gpus -= replica.gpus;
  }
  return ending;
}

/** Why a replica with this many GPUs can never start; undefined: it can. */
export function neverFits({ name, gpusMax }: ReplicaLimits, gpusEach: number): string | undefined {
  if (gpusMax === null || gpusEach <= gpusMax) return undefined;
  const noun = gpusMax === 1 ? "GPU" : "GPUs";
  const allowed = gpusMax === 0 ? "no GPUs" : `the project ${gpusMax} ${noun}`;
  return `${name} allows ${allowed}, and a replica of the app needs ${gpusEach}. Request fewer (gpuCount, compute), or ask the operator for another plan.`;
}

/** Why a start is held back, in a sentence. */
export function heldBackReason(
  { name, replicasMax, gpusMax }: ReplicaLimits,
  counted: readonly CountedReplica[],
): string {
  const areReplicasUsed = replicasMax !== null && counted.length >= replicasMax;
  const isReplicaLimit = gpusMax === null || areReplicasUsed;
  const max = isReplicaLimit ? (replicasMax ?? 0) : gpusMax;
  const what = isReplicaLimit ? "replica" : "GPU";
  const which = max === 1 ? `1 ${what}, which is` : `${max} ${what}s, which are`;
  return `${name} allows the project ${which} in use or about to end; another one starts when there is capacity again.`;
}

function sumOf(counted: readonly CountedReplica[]): number {
  return counted.reduce((sum, { gpus }) => sum + gpus, 0);
}
