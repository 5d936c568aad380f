// Enforces a project's limits in each turn for one of its apps: holds back starts beyond a limit,
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

/** The plan of a turn, and the GPUs of each replica that it would start. */
export type WantedPlan = ReplicaPlan & { readonly gpusEach: number };
/**
 * `mayExchange`: nothing could start, but a start may replace a replica of the app that is drained
 * for it.
 */
export type AllowedPlan = ReplicaPlan & {
  readonly heldBack: string | undefined;
  readonly mayExchange: boolean;
};

/** The app of the turn; `isWaiting`: calls wait for a replica. */
export type ReconciledApp = {
  readonly appId: AppId;
  readonly projectId: ProjectId;
  readonly live: Pick<ReplicaRelease, "releaseId">;
  readonly isWaiting: boolean;
};

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
      return { ...wanted, heldBack: undefined, mayExchange: true };
    const drained = new Set(wanted.drains.map(({ replicaId }) => replicaId));
    const leaving = this.#leaving(app.projectId, drained);
    let counted = this.#counted(app.projectId, drained);
    const beyond = this.#drainsBeyond(limits, counted, app);
    if (
      wanted.starts > 0 &&
      app.isWaiting &&
      rules.slotsLeft(limits, { counted, leaving }, wanted.gpusEach) === 0
    ) {
      counted = this.#makeRoom(limits, { counted, leaving }, { ...app, gpusEach: wanted.gpusEach });
    }
    const starts = Math.min(
      wanted.starts,
      rules.slotsLeft(limits, { counted, leaving }, wanted.gpusEach),
    );
    const heldBack = starts < wanted.starts ? rules.heldBackReason(limits, counted) : undefined;
    const mayExchange = this.#mayExchange(
      limits,
      { counted, leaving },
      { ...app, gpusEach: wanted.gpusEach },
    );
    return { starts, drains: [...wanted.drains, ...beyond], heldBack, mayExchange };
  }

  #mayExchange(
    limits: rules.ReplicaLimits,
    { counted, leaving }: { readonly counted: readonly Counted[]; readonly leaving: rules.Leaving },
    { appId, gpusEach }: ReconciledApp & { readonly gpusEach: number },
  ): boolean {
    const given = counted.find(({ replica }) => replica.appId === appId);
    if (given === undefined) return false;
    const more = { replicas: leaving.replicas + 1, gpus: leaving.gpus + given.gpus };
    return (
      rules.slotsLeft(
        limits,
        { counted: counted.filter((one) => one !== given), leaving: more },
        gpusEach,
      ) > 0
    );
  }

  /**
   * Replicas of the project that start or serve and are not about to be drained. Replicas on trial
   * count for their deployment instead.
   */
  #counted(projectId: ProjectId, drained: ReadonlySet<ReplicaId>): Counted[] {
    const { fleet, occupancy, clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    return [...fleet.ofProject(projectId)].flatMap((replica) => {
      const { replicaId, state, beganAtMs, heldUntilMs, leavingSinceMs } = replica;
      const isKept = leavingSinceMs === null && nowMs >= heldUntilMs && !drained.has(replicaId);
      const isCounted = isKept && (state === "starting" || state === "ready");
      if (!isCounted) return [];
      const running = occupancy.running(replicaId);
      return [
        {
          replicaId,
          isStarting: state === "starting",
          gpus: replica.gpus,
          running,
          beganAtMs,
          replica,
        },
      ];
    });
  }

  /** Replicas that are draining, about to, or that serve until those of another release do. */
  #leaving(projectId: ProjectId, drained: ReadonlySet<ReplicaId>): rules.Leaving {
    const replicas = [...this.#parts.fleet.ofProject(projectId)].filter(
      ({ replicaId, state, leavingSinceMs }) =>
        state === "draining" || leavingSinceMs !== null || drained.has(replicaId),
    );
    return { replicas: replicas.length, gpus: replicas.reduce((sum, one) => sum + one.gpus, 0) };
  }

  /** Only for this app; turns of the other apps handle theirs. */
  #drainsBeyond(
    limits: rules.ReplicaLimits,
    counted: readonly Counted[],
    app: ReconciledApp,
  ): ReplicaPlan["drains"] {
    const going = rules.beyondLimits(limits, counted);
    return counted
      .filter(({ replica }) => going.has(replica.replicaId) && replica.appId === app.appId)
      .map(({ replicaId }) => ({
        replicaId,
        reason: `${limits.name} allows the project no more replicas.`,
      }));
  }

  /**
   * An app without replicas must not wait for the cooldown of another app: ends idle replicas,
   * oldest first.
   */
  #makeRoom(
    limits: rules.ReplicaLimits,
    { counted, leaving }: { readonly counted: readonly Counted[]; readonly leaving: rules.Leaving },
    app: ReconciledApp & { readonly gpusEach: number },
  ): Counted[] {
    let left = [...counted];
    if (left.some(({ replica }) => replica.appId === app.appId)) return left;
    const idle = left.filter(({ isStarting, running }) => !isStarting && running === 0);
    for (const { replica } of idle.toSorted((one, other) => one.beganAtMs - other.beganAtMs)) {
      if (rules.slotsLeft(limits, { counted: left, leaving }, app.gpusEach) > 0) break;
      const ofItsApp = left.filter((one) => one.replica.appId === replica.appId).length;
      if (ofItsApp <= replica.settings.minReplicaCount) continue;
      const reason = `Calls of another app of the project are waiting for its slot: ${limits.name} allows no more replicas.`;
      this.#parts.drain.end(replica, { reason, kind: "wanted" });
      left = left.filter((one) => one.replica !== replica);
    }
    return left;
  }
}
