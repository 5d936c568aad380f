// Keeps the right number of replicas for each app: reacts to nudges at once, and runs at an
// interval for time-based changes. A turn of an app reads everything, decides, starts what is
// needed and never waits, so a slow start of one app does not delay another. Turns are idempotent.
import type { CandidateRelease, TrialOptions, TrialOutcome, TrialStarter } from "#deploy/trial.ts";
import type { AppId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Allowance } from "./allowance.ts";
import { AppReconciler } from "./app-reconciler.ts";
import type { AppStates } from "./app-state.ts";
import { AppStatus } from "./app-status.ts";
import { AppTurns } from "./app-turns.ts";
import { CapacityLine } from "./capacity-line.ts";
import { Counters } from "./counters.ts";
import type { DemandSource } from "./demand.ts";
import { FailedStarts } from "./failed-starts.ts";
import { heartbeatIntervalMs } from "./heartbeat.ts";
import { reclaimReplicas } from "./reclaim-replicas.ts";
import type { Replica } from "./replica.ts";
import type { BrokenCall, EndOfReplica } from "./replica-ends.ts";
import { ReplicaLifecycle, type ReplicaParts } from "./replica-lifecycle.ts";
import type { ReplicaState } from "./replica-state.ts";
import type { ReplicaView } from "./replica-view.ts";
import { ScalingKeeper } from "./scaling-state.ts";
import type { ReleaseService } from "./served-releases.ts";
import { Trials } from "./trials.ts";
import { UsageSampler } from "./usage-sampler.ts";
import { measureEveryMs, Utilization } from "./utilization.ts";
import { ZygoteKeeper } from "./zygote-keeper.ts";

export type SchedulerParts = ReplicaParts & {
  readonly demand: DemandSource;
  readonly view: ReplicaView;
  /** Limits of projects, and stops of apps. */
  readonly allowance: Allowance;
  /** The memory of all zygotes together, in bytes; 0: there are none. */
  readonly zygoteBytes: number;
};

/** How often all apps have a turn, for cooldowns and drains; urgent turns come by nudges. */
const turnIntervalMs = 1000;
/**
 * How often replicas are compared with what the driver runs. The comparison finds what no event
 * reported, such as a start just before the platform was killed.
 */
const compareIntervalMs = 30_000;
/** How often the state of scaling is saved; a kill of the platform loses what changed since. */
const saveIntervalMs = 2000;
/** How long `stop` waits for pending starts and writes. */
const stopWaitMs = 5000;

const stuckReason = "A run was cancelled, and its function could not be stopped in any other way.";

/**
 * Scales all apps; one instance per platform. Call `start()` before the first call is accepted;
 * `stop()` leaves replicas running.
 */
export class Scheduler implements TrialStarter {
  /** Counters for metrics. */
  readonly counters: Readonly<Counters>;
  /** Measures what the replicas use. */
  readonly sampler: UsageSampler;
  readonly #parts: SchedulerParts;
  readonly #turns: AppTurns;
  readonly #replicas: ReplicaLifecycle;
  /** The releases that wait for a pool with enough free. */
  readonly #line: CapacityLine;
  readonly #trials: Trials;
  readonly #states: AppStates = new Map();
  readonly #reconciler: AppReconciler;
  readonly #status: AppStatus;
  readonly #scaling: ScalingKeeper;
  readonly #zygotes: ZygoteKeeper;
  readonly #loops: readonly Loop[];
  readonly #unlisten: (() => void)[] = [];

  constructor(parts: SchedulerParts) {
    const { driver, rows, routes, demand, occupancy, view, allowance, clock, log } = parts;
    const turns = new AppTurns(log);
    const counters = new Counters();
    const states = this.#states;
    const nudgeAfter = (appId: AppId, afterMs: number): void =>
      void clock.after(afterMs, () => turns.nudge(appId));
    const failedStarts = new FailedStarts({ states, routes, counters, clock, again: nudgeAfter });
    const replicas = new ReplicaLifecycle(parts, counters, {
      onChange: (appId) => turns.nudge(appId),
      onReady: (replica) => this.#trials.onReady(replica),
      onEnd: (replica, end, from) => {
        // The end of a replica on trial is its trial's outcome, and not a failed start of the app.
        if (!this.#trials.onEnd(replica, end)) failedStarts.onEnd(replica, end, from);
      },
      onForgotten: (replica) => this.#trials.onForgotten(replica),
    });
    const { fleet, starter, drain, lines } = replicas;
    const line = new CapacityLine({
      driver,
      clock,
      onProtectedWait: (waiting) => reclaimReplicas({ driver, fleet, occupancy, drain }, waiting),
    });
    const sampler = new UsageSampler({ driver, clock });
    const utilization = new Utilization({ fleet, routes, sampler });
    const common = { fleet, starter, drain, line, allowance, clock };
    this.#trials = new Trials({ ...common, lines });
    this.#reconciler = new AppReconciler({
      ...common,
      states,
      routes,
      demand,
      occupancy,
      view,
      utilization,
    });
    this.#status = new AppStatus({ states, fleet, routes, demand, view, clock });
    this.#scaling = new ScalingKeeper({ states, rows, clock });
    this.#zygotes = new ZygoteKeeper({
      driver,
      fleet,
      routes,
      demand,
      starter,
      sampler,
      lines,
      budgetBytes: parts.zygoteBytes,
      clock,
      log,
    });
    this.counters = counters;
    this.sampler = sampler;
    this.#parts = parts;
    this.#turns = turns;
    this.#replicas = replicas;
    this.#line = line;
    const loop = (name: string, intervalMs: number, turn: () => Promise<void>): Loop =>
      new Loop({ name, intervalMs, turn, log, clock });
    this.#loops = [
      loop("scheduler", turnIntervalMs, () => this.#runAll()),
      loop("replica comparison", compareIntervalMs, () => replicas.compare()),
      loop("use of replicas", measureEveryMs, () => utilization.measure()),
      loop("state of scaling", saveIntervalMs, () => this.#scaling.save()),
      loop("replica heartbeats", heartbeatIntervalMs, () => replicas.writeHeartbeats()),
    ];
  }

  /**
   * Adopts running replicas, then starts the loops. Rejects when the database or the driver does
   * not answer.
   */
  async start(): Promise<void> {
    await this.#scaling.load();
    await this.#replicas.adopt();
    this.#turns.begin((appId) => this.#reconciler.run(appId));
    const { driver, routes, allowance } = this.#parts;
    this.#unlisten.push(
      driver.pools.onFree(() => this.#line.apps().forEach((appId) => this.nudge(appId))),
      routes.onChange((appId) => this.nudge(appId)),
      allowance.onChange((projectId) => this.#nudgeProject(projectId)),
    );
    for (const loop of this.#loops) loop.start();
    this.#zygotes.start();
  }

  /**
   * Ends the loops and the trials in progress; replicas keep running, and the next start adopts
   * them.
   */
  async stop(): Promise<void> {
    this.#turns.end();
    for (const unlisten of this.#unlisten.splice(0)) unlisten();
    await Promise.all([...this.#loops.map((loop) => loop.stop()), this.#zygotes.stop()]);
    await this.#saveLast();
    this.#trials.stop();
    await this.#replicas.stop(stopWaitMs);
  }

  /**
   * Saves what the next start should know. Pending starts are aborted only after this, so that
   * aborts are not saved as failures.
   */
  async #saveLast(): Promise<void> {
    const writes = [this.#replicas.writeHeartbeats(), this.#scaling.save()];
    for (const result of await Promise.allSettled(writes)) {
      if (result.status === "fulfilled") continue;
      this.#parts.log.warn(
        { err: result.reason },
        "what the next start should know could not be written",
      );
    }
  }

  /** Runs a turn for the app as soon as the caller yields. Cheap; many nudges lead to one turn. */
  nudge(appId: AppId): void {
    this.#turns.nudge(appId);
  }

  /**
   * Starts one replica of a release that takes no traffic yet. On success the replica stays and
   * waits a minute for the promotion of its release; otherwise it is gone when this resolves. Never
   * rejects.
   */
  tryRelease(release: CandidateRelease, options: TrialOptions): Promise<TrialOutcome> {
    return this.#trials.run(release, options);
  }

  /** Kills a replica that works on a cancelled run which cannot be stopped in another way. */
  endStuck(replicaId: ReplicaId): void {
    const { fleet, drain } = this.#replicas;
    const replica = fleet.get(replicaId);
    if (replica !== undefined) drain.end(replica, { reason: stuckReason, kind: "stuck" });
  }

  /**
   * Reports a call that broke off on its replica. Resolves with the reason why the replica has
   * ended; the last lines of its log then belong to the call's run. Null: the replica does not end
   * within a moment, or within `waitMs`. May be called again for the same call. Never rejects.
   */
  brokeOff(call: BrokenCall, waitMs?: number): Promise<EndOfReplica | null> {
    return this.#replicas.ends.brokeOff(call, waitMs);
  }

  /**
   * True when the replica ends, or has ended lately, to make way for a protected one. The runs that
   * broke off with it are not at fault.
   */
  isReclaimed(replicaId: ReplicaId): boolean {
    return this.#replicas.isReclaimed(replicaId);
  }

  /**
   * Why calls of the app wait, or why it has fewer replicas than are wanted, in sentences for its
   * owner; undefined: neither is true.
   */
  waitReason(appId: AppId): string | undefined {
    return this.#status.waitReason(appId);
  }

  /**
   * Why the replica of a build of the app waits, in sentences for its owner; undefined: none
   * waits.
   */
  buildWaitReason(appId: AppId): string | undefined {
    const reason = this.#line.reasonOf(appId);
    if (reason === undefined) return undefined;
    return `A build is finished, and its replica waits. ${reason}`;
  }

  /** How well a release that takes calls serves them. */
  serviceOf(appId: AppId, releaseId: ReleaseId): ReleaseService {
    return this.#status.serviceOf(appId, releaseId);
  }

  /** All replicas that have not stopped. */
  replicas(): readonly Replica[] {
    return this.#replicas.fleet.all();
  }

  /** Number of replicas in each state, over all apps. */
  replicaCounts(): Record<Exclude<ReplicaState, "stopped">, number> {
    const counts = { starting: 0, ready: 0, draining: 0 };
    for (const { state } of this.replicas()) if (state !== "stopped") counts[state]++;
    return counts;
  }

  /** Number of replicas whose rows lag behind because the database does not answer. */
  get unwrittenRows(): number {
    return this.#replicas.unwrittenRows;
  }

  /** Gives a turn to all apps that may have something to do. */
  #runAll(): Promise<void> {
    const appIds = new Set([...this.#replicas.fleet.apps(), ...this.#states.keys()]);
    for (const route of this.#parts.routes.all()) appIds.add(route.appId);
    this.#turns.run(appIds);
    return Promise.resolve();
  }

  /** Nudges the apps of a project; null: of all projects. */
  #nudgeProject(projectId: ProjectId | null): void {
    for (const route of this.#parts.routes.all()) {
      if (projectId === null || route.projectId === projectId) this.nudge(route.appId);
    }
  }
}
