// Starts and ends replicas of one release until it has the decided number, within the limits of its
// project, the pools, and the pauses after failed starts. Never waits.
import { neverFits } from "./allowance.ts";
import type { ServedDecision } from "./app-decision.ts";
import type { SchedulerRoute, ServedRelease } from "./app-state.ts";
import type { CapacityLine } from "./capacity-line.ts";
import { plan, planExchange, planLeaving, type PlannedReplica, type ReplicaPlan } from "./plan.ts";
import { ProjectLimits, type ProjectLimitsParts } from "./project-limits.ts";
import type { Replica } from "./replica.ts";
import { gpuCountOf, type ComputeChoice } from "./replica-spec.ts";
import type { ReplicaStarter } from "./replica-starter.ts";
import { startsMax } from "./served-releases.ts";
import { countWhileMoving } from "./shares.ts";

export type ReleaseScalerParts = ProjectLimitsParts & {
  readonly line: CapacityLine;
  readonly starter: ReplicaStarter;
};

/** Changes how many replicas releases have; one per scheduler. */
export class ReleaseScaler {
  readonly #parts: ReleaseScalerParts;
  readonly #limits: ProjectLimits;

  constructor(parts: ReleaseScalerParts) {
    this.#parts = parts;
    this.#limits = new ProjectLimits(parts);
  }

  /**
   * The compute type of new replicas, or why there can be none: it is unavailable, or one replica
   * exceeds the project's limits.
   */
  choose(
    { projectId, appId }: SchedulerRoute,
    { releaseId, settings }: ServedRelease,
  ): ComputeChoice {
    const choice = this.#parts.line.choose({ appId, releaseId, settings });
    if (!choice.ok) return choice;
    const limits = this.#parts.allowance.limitsOf(projectId);
    const reason = neverFits(limits, gpuCountOf(settings, choice.compute));
    return reason === undefined ? choice : { ok: false, why: "never", reason };
  }

  /** Starts and ends replicas of one release; returns why fewer were started than needed. */
  scale(
    { release, target, replicas, choice, starts, wanted }: ServedDecision,
    context: {
      readonly route: SchedulerRoute;
      /** True when the release's replicas are all that the app has. */
      readonly isAlone: boolean;
      /** True when calls wait for a replica. */
      readonly isWaiting: boolean;
    },
  ): string | undefined {
    const { route, isAlone, isWaiting } = context;
    const { settings } = release;
    const nowMs = this.#parts.clock.monotonicMs();
    const planned = this.#planned(replicas, route);
    // If the pools are full, the starts are tried too: they make the release wait in line.
    const mayStart = choice.ok || choice.why === "full";
    const allowedAlone = mayStart ? startsMax(starts, replicas, nowMs) : 0;
    const allowed = isAlone
      ? allowedAlone
      : Math.min(allowedAlone, this.#startsBeside(route, replicas));
    const getsAllCalls = target === 1;
    // While calls move to another release, replicas need no cooldown of their own: the decided
    // number takes the cooldown of the app into account already.
    const cooldownMs = getsAllCalls ? settings.cooldownPeriodSeconds * 1000 : 0;
    const next = plan({
      replicas: planned,
      desired: wanted,
      nowMs,
      startsMax: allowed,
      cooldownMs,
    });
    const [firstType = "CPU"] = settings.compute;
    // While no type can be had, the project's limits count with the one that the app prefers.
    const compute = choice.ok ? choice.compute : firstType;
    const exchange = planExchange(planned);
    const allowedPlan = this.#limits.within(
      { ...next, gpusEach: gpuCountOf(settings, compute), exchange },
      { ...route, live: release, isWaiting },
    );
    const { starts: allowedStarts, drains: allowedDrains, heldBack } = allowedPlan;
    // If the limits leave nothing of the plan, a restart may still go on one replica at a time.
    const isBlocked = next.starts > 0 && allowedStarts === 0 && allowedDrains.length === 0;
    const exchangeNow = isBlocked ? allowedPlan.exchange : null;
    const chosenPlan = exchangeNow ?? allowedPlan;
    this.#endAll(chosenPlan.drains);
    const isOutage = !choice.ok && choice.why === "outage";
    // During an outage nothing starts, so that the capacity line stays as it is.
    const lineReason = isOutage ? undefined : this.#start(route, release, chosenPlan.starts);
    const isDraining = this.#parts.fleet
      .ofApp(route.appId)
      .some(({ state }) => state === "draining");
    // A replica that a restart replaces may hold the very capacity that its replacement needs.
    if (lineReason !== undefined && exchange !== null && !isDraining) this.#endAll(exchange.drains);
    const outageReason = isOutage && wanted > planned.length ? choice.reason : undefined;
    return lineReason ?? heldBack ?? outageReason;
  }

  /** Ends replicas of replaced releases until `wanted` are left, or `endsMax` have ended. */
  drainLeaving(
    leaving: readonly Replica[],
    {
      route,
      wanted,
      endsMax,
    }: {
      readonly route: SchedulerRoute;
      readonly wanted: number;
      readonly endsMax?: number;
    },
  ): void {
    this.#endAll(planLeaving(this.#planned(leaving, route), wanted).slice(0, endsMax));
  }

  /**
   * Starts as many replicas as fit into the pools. If not all fit, the release waits in line, and
   * the reason is returned.
   */
  #start(
    { projectId, appId }: SchedulerRoute,
    release: ServedRelease,
    count: number,
  ): string | undefined {
    const { line, starter } = this.#parts;
    const { releaseId, buildId, settings } = release;
    const replicaRelease = { projectId, appId, releaseId, buildId, settings };
    for (let started = 0; started < count; started++) {
      const choice = line.choose(replicaRelease);
      if (!choice.ok) {
        line.wait(replicaRelease, started > 0);
        return choice.reason;
      }
      const deadlineMs = settings.deploymentInitializationTimeout * 1000;
      starter.start(replicaRelease, {
        request: choice.request,
        ahead: line.ahead(replicaRelease),
        deadlineMs,
      });
    }
    line.leave(releaseId);
    return undefined;
  }

  /**
   * How many replicas may start while the app has replicas of several releases. A restart needs its
   * replacements in addition to the replicas of the releases.
   */
  #startsBeside(
    { appId, live, rollOut, restarts }: SchedulerRoute,
    replicas: readonly Replica[],
  ): number {
    const { clock, fleet } = this.#parts;
    const nowMs = clock.monotonicMs();
    const maxima = [live, rollOut?.release].map(
      (release) => release?.settings.maxReplicaCount ?? 0,
    );
    const replicasMax = Math.max(...maxima);
    const isRestarting = replicas.some((replica) => replica.restarts < restarts);
    // How many replicas beyond the maximum an app may have while its calls move.
    const extra = countWhileMoving(replicasMax) - replicasMax;
    const max = replicasMax + (isRestarting ? 2 * extra : extra);
    // Replicas that are held for a trial or a promotion do not count.
    const counted = fleet.ofApp(appId).filter(({ state, heldUntilMs }) => {
      const isHeld = nowMs < heldUntilMs;
      return (state === "starting" || state === "ready") && !isHeld;
    });
    return Math.max(0, max - counted.length);
  }

  /** Ends the replicas, which may finish the calls that they work on. */
  #endAll(drains: ReplicaPlan["drains"]): void {
    const { drain, fleet } = this.#parts;
    for (const { replicaId, reason } of drains) {
      const replica = fleet.get(replicaId);
      if (replica !== undefined) drain.end(replica, { reason, kind: "wanted" });
    }
  }

  /** The starting and serving ones among the replicas, as a plan needs them. */
  #planned(replicas: readonly Replica[], route: SchedulerRoute): PlannedReplica[] {
    const planned: PlannedReplica[] = [];
    for (const { replicaId, state, isRouted, readyAtMs, restarts } of replicas) {
      if (state !== "starting" && state !== "ready") continue;
      const isOutdated = restarts < route.restarts;
      const running = this.#parts.occupancy.running(replicaId);
      planned.push({ replicaId, state, isOutdated, isRouted, running, readyAtMs });
    }
    return planned;
  }
}
