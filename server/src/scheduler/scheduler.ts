// Keeps the right number of replicas for each app: reacts to nudges at once, and runs at an
// interval for time-based changes. A turn of an app reads everything, decides, starts what is
// needed and never waits, so a slow start of one app does not delay another. Turns are idempotent.
import type { CandidateRelease, TrialOptions, TrialOutcome, TrialStarter } from "#deploy/trial.ts";
import type { Driver, ReplicaEvent, ReplicaLine } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import { adoptReplicas, compareReplicas, type AdoptParts } from "./adopt.ts";
import type { Allowance } from "./allowance.ts";
import { AppReconciler, type ReconcilerParts } from "./app-reconciler.ts";
import type { RouteSource } from "./app-state.ts";
import { CapacityLine } from "./capacity-line.ts";
import { Counters } from "./counters.ts";
import type { DemandSource, Occupancy } from "./demand.ts";
import { networkProbe, type Probe } from "./probe.ts";
import { Fleet, type Replica, type ReplicaEnd } from "./replica.ts";
import { ReplicaDrain } from "./replica-drain.ts";
import { ReplicaEnds, type BrokenCall, type EndOfReplica, type LineStore } from "./replica-ends.ts";
import { chooseReclaimed, reclaimedReason } from "./reclaim.ts";
import { ReplicaRemoval } from "./replica-removal.ts";
import type { Backend, ReplicaRows } from "./replica-rows.ts";
import { ReplicaStarter, type EnvironmentOf } from "./replica-starter.ts";
import type { ReplicaState } from "./replica-state.ts";
import type { ReplicaView } from "./replica-view.ts";
import { ReplicaWatch } from "./replica-watch.ts";
import type { ReleaseService } from "./served-releases.ts";
import { RowWriter } from "./row-writer.ts";
import { ScalingKeeper } from "./scaling-state.ts";
import { writeHeartbeats, heartbeatIntervalMs } from "./heartbeat.ts";
import { Trials } from "./trials.ts";
import { UsageSampler } from "./usage-sampler.ts";
import { measureEveryMs, Utilization } from "./utilization.ts";

export type SchedulerParts = {
  readonly driver: Driver;
  /** Identifies this platform in the rows of the replicas that it looks after. */
  readonly instanceId: string;
  readonly rows: ReplicaRows;
  readonly routes: RouteSource;
  readonly demand: DemandSource;
  readonly occupancy: Occupancy;
  readonly environmentOf: EnvironmentOf;
  readonly lines: LineStore;
  readonly view: ReplicaView;
  readonly log: Log;
  /** How long a replica without calls may take to exit after SIGTERM. */
  readonly exitMs: number;
  /** How long a replica may wait for a machine or its image. */
  readonly pendingMs: number;
  /** See `AdoptParts`. */
  readonly endsFile: string | null;
  /** Limits of projects, and stops of apps. */
  readonly allowance: Allowance;
  readonly clock: Clock;
  readonly probe?: Probe;
};

/** For cooldowns and drains; urgent work comes by nudges. */
const lookIntervalMs = 1000;
/** Finds what events missed, such as a start that completed while the platform was dying. */
const compareIntervalMs = 30_000;
/** A kill loses changes since the last save. */
const saveIntervalMs = 2000;
/** How long `stop` waits for pending starts and writes. */
const stopWaitMs = 5000;

const stuckReason = "A run was cancelled, and its function could not be stopped in any other way.";

/**
 * One instance per platform. Call `start()` before the first call is accepted; `stop()` leaves
 * replicas running.
 */
export class Scheduler implements TrialStarter {
  /** Counters for metrics. */
  readonly counters: Readonly<Counters>;
  /** Measures what the replicas use. */
  readonly sampler: UsageSampler;
  readonly #parts: SchedulerParts;
  readonly #clock: Clock;
  readonly #backend: Backend;
  readonly #fleet = new Fleet();
  readonly #writer: RowWriter;
  readonly #removal: ReplicaRemoval;
  readonly #drain: ReplicaDrain;
  readonly #watch: ReplicaWatch;
  readonly #starter: ReplicaStarter;
  readonly #trials: Trials;
  readonly #ends: ReplicaEnds;
  readonly #look: AppReconciler;
  readonly #scaling: ScalingKeeper;
  readonly #line: CapacityLine;
  readonly #loops: readonly Loop[];
  readonly #dirty = new Set<AppId>();
  readonly #unlisten: (() => void)[] = [];
  #isRunning = false;

  constructor(parts: SchedulerParts) {
    const { log, clock, probe = networkProbe(clock), exitMs } = parts;
    const { driver, rows, routes, demand, occupancy, environmentOf, view, allowance } = parts;
    const fleet = this.#fleet;
    const onChange = (appId: AppId): void => this.nudge(appId);
    const counters = new Counters();
    this.#parts = parts;
    this.#clock = clock;
    this.counters = counters;
    this.#writer = new RowWriter({ rows, clock, log });
    const writer = this.#writer;
    this.#ends = new ReplicaEnds({ lines: parts.lines, clock, log });
    this.#backend = {
      instanceId: parts.instanceId,
      installationId: driver.installationId,
      name: driver.name,
      isShared: driver.isShared,
    };
    const removal = new ReplicaRemoval({
      driver,
      writer,
      fleet,
      counters,
      clock,
      log,
      events: {
        onGone: (replica, end) => this.#shownEnd(replica, end),
        onEnd: (replica, end, stateBefore) => {
          const hadCalls = this.#hasCalls(replica);
          if (!this.#trials.onEnd(replica, end))
            this.#look.onEnd(replica, end, { stateBefore, hadCalls });
          this.nudge(replica.appId);
        },
        onForgotten: (replica, end) => {
          this.#trials.onForgotten(replica);
          void this.#ends.tell(replica, end);
        },
      },
    });
    const drain = new ReplicaDrain({
      driver,
      writer,
      occupancy,
      exitMs,
      removal,
      clock,
      log,
      onChange,
    });
    const watch = new ReplicaWatch({
      driver,
      probe,
      writer,
      fleet,
      counters,
      pendingMs: parts.pendingMs,
      drain,
      clock,
      onChange,
      onReady: (replica) => {
        this.#trials.onReady(replica);
        this.nudge(replica.appId);
      },
      onNotice: (replica, text) => this.#notice(replica, text),
    });
    const starter = new ReplicaStarter({
      driver,
      backend: this.#backend,
      rows,
      writer,
      fleet,
      environmentOf,
      restartsOf: (appId) => routes.byAppId(appId)?.restarts ?? 0,
      counters,
      watch,
      removal,
      clock,
      log,
      onChange,
    });
    this.#removal = removal;
    this.#drain = drain;
    this.#watch = watch;
    this.#starter = starter;
    const line = new CapacityLine({ driver, clock, onProtectedWait: () => this.#reclaim() });
    this.#line = line;
    this.#trials = new Trials({ starter, drain, fleet, allowance, clock, line });
    const common = { fleet, starter, drain, allowance, counters, clock };
    this.sampler = new UsageSampler({ driver, clock });
    const utilization = new Utilization({ fleet, routes, sampler: this.sampler });
    const lookParts: ReconcilerParts = { ...common, routes, demand, occupancy, view, utilization };
    this.#look = new AppReconciler(lookParts, {
      line,
      again: (appId, afterMs) => clock.after(afterMs, () => this.nudge(appId)),
    });
    this.#scaling = new ScalingKeeper({ rows, clock, states: this.#look.states });
    const loop = (name: string, intervalMs: number, turn: () => Promise<void>): Loop =>
      new Loop({ name, intervalMs, turn, log, clock });
    this.#loops = [
      loop("scheduler", lookIntervalMs, () => this.#turn()),
      loop("replica comparison", compareIntervalMs, () => compareReplicas(this.#adoptParts())),
      loop("use of replicas", measureEveryMs, () => utilization.measure()),
      loop("state of scaling", saveIntervalMs, () => this.#scaling.save()),
      loop("replica heartbeats", heartbeatIntervalMs, () =>
        writeHeartbeats({ fleet, driver, rows, clock }),
      ),
    ];
  }

  /**
   * Adopts running replicas, then starts the loop. Rejects when the database or the driver does not
   * answer.
   */
  async start(): Promise<void> {
    await this.#scaling.load();
    await adoptReplicas(this.#adoptParts(), {
      event: (event) => this.#event(event),
      lines: (lines) => this.#lines(lines),
    });
    this.#isRunning = true;
    const { driver, routes, allowance } = this.#parts;
    this.#unlisten.push(
      driver.pools.onFree(() => this.#line.apps().forEach((appId) => this.nudge(appId))),
      routes.onChange((appId) => this.nudge(appId)),
      allowance.onChange((projectId) => this.#nudgeProject(projectId)),
    );
    for (const loop of this.#loops) loop.start();
  }

  /**
   * Stops deciding; replicas keep running, and the next start adopts them. Ends trials in progress.
   */
  async stop(): Promise<void> {
    this.#isRunning = false;
    for (const unlisten of this.#unlisten.splice(0)) unlisten();
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    await this.#noteLast();
    this.#trials.stop();
    await this.#starter.settle(stopWaitMs);
    this.#removal.stop();
    this.#watch.stop();
    await this.#writer.stop(stopWaitMs);
    await this.#parts.driver.close();
  }

  /** Save before aborting starts, so that the aborts do not count as failures. */
  async #noteLast(): Promise<void> {
    const heartbeats = writeHeartbeats({ ...this.#parts, fleet: this.#fleet, clock: this.#clock });
    for (const noted of await Promise.allSettled([heartbeats, this.#scaling.save()])) {
      if (noted.status === "fulfilled") continue;
      this.#parts.log.warn(
        { err: noted.reason },
        "what the next start should know could not be written",
      );
    }
  }

  /** Runs a turn for the app as soon as the caller yields. Cheap; many nudges lead to one turn. */
  nudge(appId: AppId): void {
    if (!this.#isRunning) return;
    if (this.#dirty.size === 0) queueMicrotask(() => this.#lookAtDirty());
    this.#dirty.add(appId);
  }

  /**
   * Starts one replica of a release that takes no traffic yet. On success it stays and waits a
   * minute for the promotion of its release; otherwise it is gone when this resolves. Never
   * rejects.
   */
  tryRelease(release: CandidateRelease, options: TrialOptions): Promise<TrialOutcome> {
    return this.#trials.run(release, options);
  }

  /**
   * Kills a replica that works on a run which is no longer wanted and cannot be stopped otherwise.
   */
  endStuck(replicaId: ReplicaId): void {
    const replica = this.#fleet.get(replicaId);
    if (replica !== undefined) this.#drain.end(replica, { reason: stuckReason, kind: "stuck" });
  }

  /**
   * A call broke off on the replica. Resolves with why the replica has ended, whose last lines then
   * belong to the call's run; null when it does not end within a moment, or within `waitMs`. May be
   * asked again for a call. Never rejects.
   */
  brokeOff(call: BrokenCall, waitMs?: number): Promise<EndOfReplica | null> {
    return this.#ends.brokeOff(call, waitMs);
  }

  /** True when calls run on the replica, or have just broken off there. */
  #hasCalls({ replicaId }: Replica): boolean {
    return this.#parts.occupancy.running(replicaId) > 0 || this.#ends.hasBrokenCalls(replicaId);
  }

  /**
   * True when the replica ends, or has ended lately, to make way for a protected one: its runs are
   * not at fault.
   */
  isReclaimed(replicaId: ReplicaId): boolean {
    const replica = this.#fleet.get(replicaId);
    return replica === undefined
      ? this.#ends.wasReclaimed(replicaId)
      : replica.endOrder?.kind === "reclaimed";
  }

  /**
   * Why calls of the app wait, or why it has fewer replicas than are wanted, in sentences for its
   * owner; undefined when neither is so.
   */
  waitReason(appId: AppId): string | undefined {
    return this.#look.waitReason(appId);
  }

  /**
   * Why the replica of a build of the app waits, in sentences for its owner; undefined when none
   * does.
   */
  buildWaitReason(appId: AppId): string | undefined {
    const reason = this.#line.reasonOf(appId);
    return reason === undefined
      ? undefined
      : `A build is finished, and its replica waits. ${reason}`;
  }

  /** How a release that is served does. */
  serviceOf(appId: AppId, releaseId: ReleaseId): ReleaseService {
    return this.#look.serviceOf(appId, releaseId);
  }

  /** All replicas that have not stopped. */
  replicas(): readonly Replica[] {
    return this.#fleet.all();
  }

  /** Number of replicas in each state, over all apps. */
  replicaCounts(): Record<Exclude<ReplicaState, "stopped">, number> {
    const counts = { starting: 0, ready: 0, draining: 0 };
    for (const { state } of this.#fleet.all()) if (state !== "stopped") counts[state]++;
    return counts;
  }

  /** Number of replicas whose rows lag behind because the database does not answer. */
  get unwrittenRows(): number {
    return this.#writer.waiting;
  }

  /** Ends interruptible replicas where protected ones wait and nothing else makes way for them. */
  #reclaim(): void {
    const { all, claims, free } = this.#parts.driver.pools;
    const replicas = this.#fleet.all().flatMap((replica) => {
      const { replicaId, appId, state, isTrial, beganAtMs } = replica;
      const claim = claims.get(replicaId);
      if (claim === undefined) return [];
      const running = this.#parts.occupancy.running(replicaId);
      return [
        { replicaId, appId, claim, isTrial, running, beganAtMs, isDraining: state === "draining" },
      ];
    });
    for (const replicaId of chooseReclaimed({
      pools: all,
      free,
      replicas,
      waiting: this.#line.protectedWishes(),
    })) {
      const replica = this.#fleet.get(replicaId);
      if (replica !== undefined)
        this.#drain.end(replica, { reason: reclaimedReason, kind: "reclaimed" });
    }
  }

  #nudgeProject(projectId: ProjectId | null): void {
    for (const route of this.#parts.routes.all()) {
      if (projectId === null || route.projectId === projectId) this.nudge(route.appId);
    }
  }

  #adoptParts(): AdoptParts {
    const { driver, rows, endsFile, log } = this.#parts;
    const own = {
      backend: this.#backend,
      clock: this.#clock,
      writer: this.#writer,
      fleet: this.#fleet,
      watch: this.#watch,
      drain: this.#drain,
      removal: this.#removal,
    };
    return { driver, rows, endsFile, log, ...own };
  }

  #turn(): Promise<void> {
    const appIds = new Set([...this.#fleet.apps(), ...this.#look.states.keys()]);
    for (const route of this.#parts.routes.all()) appIds.add(route.appId);
    for (const appId of appIds) this.#lookAt(appId);
    return Promise.resolve();
  }

  #lookAtDirty(): void {
    const appIds = [...this.#dirty];
    this.#dirty.clear();
    for (const appId of appIds) this.#lookAt(appId);
  }

  /** Replicas that were started or adopted before a live change follow it. */
  #takeSettings(appId: AppId): void {
    const route = this.#parts.routes.byAppId(appId);
    const served = [route?.live, route?.rollOut?.release];
    for (const replica of this.#fleet.ofApp(appId)) {
      const release = served.find((one) => one?.releaseId === replica.release.releaseId);
      if (release) replica.settings = release.settings;
    }
  }

  /** An error in the turn of one app must not block the others. */
  #lookAt(appId: AppId): void {
    if (!this.#isRunning) return;
    try {
      this.#takeSettings(appId);
      this.#look.run(appId);
    } catch (error) {
      this.#parts.log.error({ err: error, appId }, "could not look at an app");
    }
  }

  /** Handles an event of the driver. Those of unknown replicas concern removed ones. */
  #event(event: ReplicaEvent): void {
    const replica = this.#fleet.get(event.replicaId);
    if (replica === undefined) return;
    if (event.kind === "started") this.#watch.started(replica, event);
    else this.#removal.remove(replica, { ...event, at: event.at ?? replica.seenAtMs });
  }

  /** The end of a replica that is gone, as it is to be shown. */
  #shownEnd(replica: Replica, end: ReplicaEnd): ReplicaEnd {
    this.#ends.ended(replica, end);
    // What it wrote while it started belongs to its start.
    return replica.readyAtMs === null
      ? end
      : this.#ends.shown(replica.replicaId, end, this.#hasCalls(replica));
  }

  #notice({ replicaId }: Replica, text: string): void {
    const { log } = this.#parts;
    const line: ReplicaLine = {
      replicaId,
      at: this.#clock.now(),
      stream: "stderr",
      runId: null,
      text,
    };
    this.#lines([line]).catch((error: unknown) =>
      log.warn({ err: error, replicaId }, "a notice was not stored"),
    );
  }

  async #lines(lines: readonly ReplicaLine[]): Promise<void> {
    const known = lines.flatMap((line) => {
      const owner = this.#removal.ownerOf(line.replicaId);
      if (owner === undefined) return [];
      this.#trials.line(line);
      return [{ ...line, projectId: owner.projectId, appId: owner.appId }];
    });
    if (known.length > 0) await this.#parts.lines.append(known);
  }
}
