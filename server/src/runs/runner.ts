// Processes runs: claims as many of each app as capacity allows, renews the leases of held runs,
// takes over the runs of a lost platform, and stops without losing anything.
import type { Clock } from "#lib/clock.ts";
import type { AppId, ReplicaId, RunId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Lease, Leases } from "#store/lease.ts";
import type { ActiveRun } from "./active-run.ts";
import { Admission } from "./admission.ts";
import { Execution, type ExecutionParts } from "./execution.ts";
import { Recovery, type RecoveryParts } from "./recovery.ts";
import type { OnRunStep } from "./run-steps.ts";
import {
  dueRunsOf,
  interruptedRuns,
  type HeldRun,
  type RunStore,
  type RunWork,
} from "./run-store.ts";

/** The replica that a run was sent to. */
export type ReplicaRef = { readonly appId: AppId; readonly replicaId: ReplicaId };

export type RunnerOptions = Pick<Foundation, "clock" | "log"> & {
  readonly store: RunStore;
  readonly leases: Leases<"runs">;
  /** How long a lease lasts. */
  readonly leaseMs: number;
  readonly execution: Omit<ExecutionParts, "onLetGo">;
  readonly recovery: Omit<RecoveryParts, "onLetGo">;
  /**
   * How many calls the replicas of an app can handle when fully scaled out; undefined: the app has
   * no live release.
   */
  readonly slotsMaxOf: (appId: AppId) => number | undefined;
  /** True while runs of the app must not be claimed: they wait in the database. */
  readonly isStopped: (appId: AppId) => boolean;
  /** How many runs of all apps are held at most. */
  readonly runsMax: number;
  /** The maximum length of an app's line, which runs share with plain calls. */
  readonly lineLengthMax: number;
  readonly onStep: OnRunStep;
  /**
   * Called at the takeover of a run that another process had begun, with the replica to which the
   * run was sent; null: it was sent to none. The returned function is called when this process lets
   * go of the run.
   */
  readonly onTakenOver: (runId: RunId, replica: ReplicaRef | null) => () => void;
  /** Called after each check for lost runs, when the runs that the check found are taken over. */
  readonly onLooked: () => Promise<void>;
};

/** The maximum number of runs per app, regardless of the capacity of its replicas. */
const appMax = 256;
/** The maximum size of the request bodies of all held runs together. */
const bytesMax = 512 * 1_048_576;
/** New work triggers a notification; this interval covers notifications that are lost. */
const claimEveryMs = 1_000;
/** How often runs of lost platforms are looked for. */
const reapEveryMs = 5_000;
/** The maximum number of runs that one check takes over. */
const takenOverMax = 500;
/** How often `stop` checks whether all runs have been let go. */
const leaveWaitMs = 100;

type Entry = { readonly run: ActiveRun; readonly lease: Lease<"runs"> };

/** Processes runs; one per platform. */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #admission: Admission;
  readonly #waitTimer: WaitTimer;
  /** The runs that this process holds, each with its lease. */
  readonly #active = new Map<RunId, Entry>();
  readonly #claiming: Loop;
  readonly #renewing: Loop;
  readonly #reaping: Loop;
  /**
   * Apps that may have due runs that nobody holds. New runs of these apps wait behind those due
   * runs.
   */
  readonly #backlog = new Set<AppId>();
  /** True once the platform stops: no run is claimed any more. */
  #isQuiet = false;
  /** When the latest successful renewal of the leases began. */
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  /** Cancels the timer for the next run that becomes due. */
  #cancelWake: () => void = () => undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#waitTimer = new WaitTimer(options.clock);
    const { log, clock, leaseMs, runsMax, lineLengthMax } = options;
    this.#admission = new Admission({
      runsMax,
      bytesMax,
      // Waiting runs are in the app's line too: half of it is left to plain calls.
      appMax: Math.max(1, Math.min(appMax, lineLengthMax / 2)),
    });
    const loop = (name: string, intervalMs: number, turn: () => Promise<void>): Loop =>
      new Loop({ name, intervalMs, turn, log, clock });
    this.#claiming = loop("runs", claimEveryMs, () => this.#claim());
    // Some renewals may fail or be late before a lease expires.
    this.#renewing = loop("leases of runs", leaseMs / 4, () => this.#renew());
    this.#reaping = loop("lost runs", reapEveryMs, () => this.#takeOver());
  }

  start(): void {
    for (const loop of [this.#reaping, this.#claiming, this.#renewing]) loop.start();
  }

  /** Called when the app has runs that nobody holds; null: any app may have some. */
  nudge(appId: AppId | null): void {
    if (appId === null) {
      this.#claiming.nudge();
      return;
    }
    this.#backlog.add(appId);
    this.#claimWhenHalfFree(appId);
  }

  /**
   * Reserves capacity for one run of the app that is about to be accepted; follow with `take` or
   * `unreserve`. False: there is no capacity, and the run must wait in the database.
   */
  reserve(appId: AppId, bytes: number): boolean {
    if (this.#isQuiet || this.#backlog.has(appId) || this.#options.isStopped(appId)) return false;
    const slots = this.#options.slotsMaxOf(appId);
    if (slots === undefined || this.#admission.free(appId, slots) === 0) return false;
    if (!this.#admission.hasBytes(appId, bytes)) return false;
    this.#admission.take(appId, bytes);
    return true;
  }

  /** Releases what `reserve` took. */
  unreserve(appId: AppId, bytes: number): void {
    this.#admission.giveBack(appId, bytes);
  }

  /** Begins to process a run that this platform holds and has reserved capacity for. */
  take(work: RunWork): void {
    const run: Execution = new Execution(work, {
      ...this.#options.execution,
      onLetGo: () => this.#letGo(run),
    });
    this.#enter(run);
    run.begin();
    if (this.#isQuiet) run.leave();
  }

  /** A cancel was requested for the run; does nothing if this platform does not hold it. */
  cancel(runId: RunId): void {
    this.#active.get(runId)?.run.cancel();
  }

  /**
   * Claims no more runs, gives back waiting ones, and waits up to `waitMs` for those whose answers
   * would be lost otherwise.
   */
  async drain(waitMs: number): Promise<void> {
    const { clock } = this.#options;
    const endMs = clock.monotonicMs() + waitMs;
    this.#isQuiet = true;
    for (const { run } of this.#active.values()) run.leave();
    while (this.#active.size > 0 && clock.monotonicMs() < endMs) await clock.sleep(leaveWaitMs);
  }

  /** Lets go of all runs. */
  async stop(): Promise<void> {
    await this.drain(0);
    this.#cancelWake();
    await Promise.all([this.#claiming.stop(), this.#reaping.stop()]);
    if (this.#active.size > 0)
      this.#options.log.warn(
        { runs: this.#active.size },
        "runs were still going on when the platform stopped",
      );
    for (const { run } of this.#active.values()) run.abandon();
    // Stops last, so that the runs keep their leases as long as they go on.
    await this.#renewing.stop();
  }

  #enter(run: ActiveRun): void {
    const { runId, epoch } = run.work;
    // A process that stalled until its leases expired may take over its own runs. Then `run`
    // replaces the object that has held the run so far.
    this.#active.get(runId)?.run.abandon();
    // A renewal needs only the id and the epoch.
    this.#active.set(runId, { run, lease: { id: runId, epoch, isTakenOver: false } });
  }

  #letGo(run: ActiveRun): void {
    const { runId, appId, body } = run.work;
    if (this.#active.get(runId)?.run === run) this.#active.delete(runId);
    this.#admission.giveBack(appId, body.length);
    if (this.#backlog.has(appId)) this.#claimWhenHalfFree(appId);
  }

  #claimWhenHalfFree(appId: AppId): void {
    // Without a live release there are no slots, and a few runs are claimed; see `#claim`.
    const slots = this.#options.slotsMaxOf(appId) ?? 0;
    if (this.#admission.isHalfFree(appId, slots)) this.#claiming.nudge();
  }

  async #claim(): Promise<void> {
    if (this.#isQuiet) return;
    const { store, slotsMaxOf, isStopped, clock } = this.#options;
    const apps = await store.appsWithWork();
    this.#backlog.clear();
    let wakeMs = Number.POSITIVE_INFINITY;
    for (const { appId, dueInMs } of apps) {
      if (dueInMs > 0) {
        wakeMs = Math.min(wakeMs, dueInMs);
        continue;
      }
      this.#backlog.add(appId);
      if (isStopped(appId)) {
        this.#waitTimer.noteStop(appId);
        continue;
      }
      // Without a live release, some runs are claimed too, so that they end with that reason.
      const free = this.#admission.free(appId, slotsMaxOf(appId) ?? 0);
      if (free === 0) continue;
      const found = await this.#claimOf(appId, free);
      // If fewer runs were found than there is capacity for, the app has no more due runs.
      if (found < free) this.#backlog.delete(appId);
    }
    this.#cancelWake();
    // Runs that are due later are found by the regular turns of the loop.
    if (wakeMs < claimEveryMs)
      this.#cancelWake = clock.after(Math.max(1, wakeMs), () => this.#claiming.nudge());
  }

  /** Claims up to `free` runs of the app and begins them; returns how many it found. */
  async #claimOf(appId: AppId, free: number): Promise<number> {
    const { leases, store, onStep } = this.#options;
    const claimed = await leases.claim({ ...dueRunsOf(appId), limit: free });
    if (claimed.length === 0) return 0;
    onStep("run claimed");
    const held = claimed.map(({ id, epoch }) => ({ runId: id, epoch }));
    for (const work of await store.read(await this.#fitting(appId, held))) {
      this.#admission.take(appId, work.body.length);
      this.take({ ...work, waitsSinceMs: this.#waitTimer.sinceMs(appId, work.waitsSinceMs) });
      if (work.isCancelRequested) this.cancel(work.runId);
    }
    return claimed.length;
  }

  /**
   * The runs whose bodies fit in memory, but always the first one. The others are given back, and
   * may be claimed again after a moment.
   */
  async #fitting(appId: AppId, held: readonly HeldRun[]): Promise<HeldRun[]> {
    const { store } = this.#options;
    const sizes = await store.bodyBytes(held);
    let bytes = 0;
    const fitting = held.filter(({ runId }, index) => {
      // A run without a stored request has ended meanwhile, and `read` omits it.
      const size = sizes.get(runId) ?? 0;
      if (index > 0 && !this.#admission.hasBytes(appId, bytes + size)) return false;
      bytes += size;
      return true;
    });
    const rest = held.filter((run) => !fitting.includes(run));
    if (rest.length > 0) await store.putOff(rest, claimEveryMs);
    return fitting;
  }

  async #renew(): Promise<void> {
    const { leases, store, clock } = this.#options;
    const entries = [...this.#active.values()];
    const requestedMs = clock.monotonicMs();
    if (entries.length === 0) return;
    const held = await leases.renewAll(entries.map(({ lease }) => lease));
    this.#renewedAtMs = requestedMs;
    for (const { run } of entries) {
      // A run needs nothing if it has ended meanwhile, or if another object of this process holds
      // it now.
      const isHeldOrGone =
        held.has(run.work.runId) || this.#active.get(run.work.runId)?.run !== run;
      if (!isHeldOrGone) run.abandon();
    }
    // A cancel notification may get lost, or come before the claim.
    for (const runId of await store.cancelRequested()) this.cancel(runId);
  }

  async #takeOver(): Promise<void> {
    if (this.#isQuiet) return;
    const { store, leases, onLooked, clock, leaseMs } = this.#options;
    // If the database or this process has stalled, the leases held here may have expired. They are
    // renewed first, so that this process does not take over its own runs.
    if (clock.monotonicMs() - this.#renewedAtMs > leaseMs / 2) await this.#renew();
    // Queued runs of a lost platform were not begun: they become pending again, to be claimed.
    if ((await store.reapQueued(takenOverMax)) > 0) this.nudge(null);
    const claimed = await leases.claim({ ...interruptedRuns, limit: takenOverMax });
    if (claimed.length > 0) await this.#recover(claimed);
    // There may be other lost runs.
    if (claimed.length === takenOverMax) this.#reaping.nudge();
    await onLooked();
  }

  /** Begins to recover runs that another process had begun. */
  async #recover(claimed: readonly Lease<"runs">[]): Promise<void> {
    const { store, onStep, onTakenOver, recovery } = this.#options;
    onStep("run taken over");
    for (const orphan of await store.read(claimed.map(({ id, epoch }) => ({ runId: id, epoch })))) {
      const { runId, appId, replicaId } = orphan;
      const replica = replicaId === null ? null : { appId, replicaId };
      const endHold = onTakenOver(runId, replica);
      const onLetGo = (): void => {
        endHold();
        this.#letGo(run);
      };
      const run: Recovery = new Recovery(orphan, { ...recovery, onLetGo });
      this.#admission.take(appId, orphan.body.length);
      this.#enter(run);
      run.begin();
    }
  }
}

/**
 * Tells since when a run has waited for a replica, because that wait is limited. Time in which the
 * run's app was stopped, or no platform was running, does not count. The timer knows only the stops
 * that `noteStop` reports, and takes its own creation as the start of the platform.
 */
class WaitTimer {
  readonly #clock: Pick<Clock, "now">;
  readonly #startedMs: number;
  /** When a stop last made runs of an app wait. Has at most one entry per app. */
  readonly #stoppedMs = new Map<AppId, number>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
    this.#startedMs = clock.now();
  }

  /** To be called again and again while the app is stopped and has due runs. */
  noteStop(appId: AppId): void {
    this.#stoppedMs.set(appId, this.#clock.now());
  }

  /** The time since which a run accepted at `acceptedAtMs` could have had a replica. */
  sinceMs(appId: AppId, acceptedAtMs: number): number {
    const stoppedMs = this.#stoppedMs.get(appId) ?? acceptedAtMs;
    return Math.max(acceptedAtMs, this.#startedMs, stoppedMs);
  }
}
