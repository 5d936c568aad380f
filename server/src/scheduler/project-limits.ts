// Enforces a project's limits in each turn of one of its apps: holds back starts beyond a limit,
// ends replicas beyond a lowered limit, and frees the slot of an idle replica when calls of another
// app wait for one. Turns within a process are sequential, so two of them cannot exceed a limit
// together.
import type { Clock } from "#lib/clock.ts";
import type { AppId, ProjectId, ReplicaId } from "#lib/ids.ts";
import * as rules from "./allowance.ts";
import type { Occupancy } from "./demand.ts";
import type { ReplicaPlan } from "./plan.ts";
import type { Fleet, Replica, ReplicaRelease } from "./replica.ts";
import type { ReplicaDrain } from "./replica-drain.ts";

export type ProjectLimitsParts = {
  readonly allowance: rules.Allowance;
  readonly fleet: Fleet;
  readonly occupancy: Occupancy;
  readonly drain: ReplicaDrain;
  readonly clock: Clock;
};

/**
 * The plan of a turn, and the GPUs of each replica that it would start. `exchange`: what to do
 * instead when nothing can start beside the replicas that are there; null: nothing.
 */
export type WantedPlan = ReplicaPlan & {
  readonly gpusEach: number;
  readonly exchange: ReplicaPlan | null;
};
/**
 * The part of a plan that the limits allow. `heldBack`: why it starts fewer replicas; undefined: it
 * starts all. `exchange`: null when the limits do not allow it.
 */
export type AllowedPlan = ReplicaPlan & {
  readonly heldBack: string | undefined;
  readonly exchange: ReplicaPlan | null;
};

/** The app of the turn; `isWaiting`: calls wait for a replica. */
export type ReconciledApp = {
  readonly appId: AppId;
  readonly projectId: ProjectId;
  readonly live: Pick<ReplicaRelease, "releaseId">;
  readonly isWaiting: boolean;
};

/** A replica that counts towards the limits. */
type Counted = rules.CountedReplica & { readonly replica: Replica };

/** Enforces limits; one instance per platform. */
export class ProjectLimits {
  readonly #parts: ProjectLimitsParts;

  constructor(parts: ProjectLimitsParts) {
    this.#parts = parts;
  }

  /** Returns the part of the plan that the project's limits allow. */
  within(wanted: WantedPlan, app: ReconciledApp): AllowedPlan {
    const limits = this.#parts.allowance.limitsOf(app.projectId);
    if (limits.replicasMax === null && limits.gpusMax === null)
      return { ...wanted, heldBack: undefined };
    const drained = new Set(wanted.drains.map(({ replicaId }) => replicaId));
    const leaving = this.#leaving(app.projectId, drained);
    let counted = this.#counted(app.projectId, drained);
    const beyond = this.#drainsBeyond(limits, counted, app);
    const { gpusEach } = wanted;
    let slots = rules.slotsLeft(limits, { counted, leaving }, gpusEach);
    if (wanted.starts > 0 && app.isWaiting && slots === 0) {
      counted = this.#freeSlots(limits, { counted, leaving }, { ...app, gpusEach });
      slots = rules.slotsLeft(limits, { counted, leaving }, gpusEach);
    }
    const starts = Math.min(wanted.starts, slots);
    const heldBack = starts < wanted.starts ? rules.heldBackReason(limits, counted) : undefined;
    const exchange = mayExchange(limits, { counted, leaving }, wanted) ? wanted.exchange : null;
    return { starts, drains: [...wanted.drains, ...beyond], heldBack, exchange };
  }

  /**
   * Replicas of the project that start or serve and are not about to be drained. Replicas on trial
   * do not count: a deployment may have one replica beyond the limit.
   */
  #counted(projectId: ProjectId, drained: ReadonlySet<ReplicaId>): Counted[] {
    const { fleet, occupancy, clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    const isCounted = ({ replicaId, state, heldUntilMs, leavingSinceMs }: Replica): boolean => {
      const stays = leavingSinceMs === null && nowMs >= heldUntilMs && !drained.has(replicaId);
      return stays && (state === "starting" || state === "ready");
    };
    return [...fleet.ofProject(projectId)].filter(isCounted).map((replica) => ({
      replicaId: replica.replicaId,
      isStarting: replica.state === "starting",
      gpus: replica.gpus,
      running: occupancy.running(replica.replicaId),
      beganAtMs: replica.beganAtMs,
      replica,
    }));
  }

  /** Replicas that drain, are about to drain, or serve only until another release does. */
  #leaving(projectId: ProjectId, drained: ReadonlySet<ReplicaId>): rules.Leaving {
    const replicas = [...this.#parts.fleet.ofProject(projectId)].filter(
      ({ replicaId, state, leavingSinceMs }) =>
        state === "draining" || leavingSinceMs !== null || drained.has(replicaId),
    );
    return {
      replicas: replicas.length,
      gpus: replicas.reduce((sum, replica) => sum + replica.gpus, 0),
    };
  }

  /** The drains of this app's replicas beyond the limits; the other apps have their own turns. */
  #drainsBeyond(
    limits: rules.ReplicaLimits,
    counted: readonly Counted[],
    app: ReconciledApp,
  ): ReplicaPlan["drains"] {
    const beyond = rules.beyondLimits(limits, counted);
    return counted
      .filter(({ replica }) => beyond.has(replica.replicaId) && replica.appId === app.appId)
      .map(({ replicaId }) => ({
        replicaId,
        reason: `${limits.name} allows the project no more replicas.`,
      }));
  }

  /**
   * Ends idle replicas of other apps, oldest first, if the app has no replicas: it must not wait
   * for the cooldown of another app. Returns the replicas that still count.
   */
  #freeSlots(
    limits: rules.ReplicaLimits,
    { counted, leaving }: { readonly counted: readonly Counted[]; readonly leaving: rules.Leaving },
    app: ReconciledApp & { readonly gpusEach: number },
  ): Counted[] {
    let remaining = [...counted];
    if (remaining.some(({ replica }) => replica.appId === app.appId)) return remaining;
    const idle = remaining.filter(({ isStarting, running }) => !isStarting && running === 0);
    for (const { replica } of idle.toSorted((left, right) => left.beganAtMs - right.beganAtMs)) {
      if (rules.slotsLeft(limits, { counted: remaining, leaving }, app.gpusEach) > 0) break;
      const ofItsApp = remaining.filter((other) => other.replica.appId === replica.appId).length;
      // Each app keeps its minimum.
      if (ofItsApp <= replica.settings.minReplicaCount) continue;
      const reason = `Calls of another app of the project are waiting for its slot: ${limits.name} allows no more replicas.`;
      this.#parts.drain.end(replica, { reason, kind: "wanted" });
      remaining = remaining.filter((other) => other.replica !== replica);
    }
    return remaining;
  }
}

/** Whether a replica may start while the one that the exchange drains is leaving. */
function mayExchange(
  limits: rules.ReplicaLimits,
  { counted, leaving }: { readonly counted: readonly Counted[]; readonly leaving: rules.Leaving },
  { exchange, gpusEach }: WantedPlan,
): boolean {
  const drained = new Set(exchange?.drains.map(({ replicaId }) => replicaId));
  const exchanged = counted.filter(({ replicaId }) => drained.has(replicaId));
  if (exchanged.length === 0) return false;
  const exchangedGpus = exchanged.reduce((sum, { gpus }) => sum + gpus, 0);
  // What counts once the exchange has drained its replica.
  const after = {
    counted: counted.filter(({ replicaId }) => !drained.has(replicaId)),
    leaving: {
      replicas: leaving.replicas + exchanged.length,
      gpus: leaving.gpus + exchangedGpus,
    },
  };
  return rules.slotsLeft(limits, after, gpusEach) > 0;
}
