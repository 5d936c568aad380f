// Executes builds. Claims waiting builds up to a limit, one per app; the projects of one owner
// leave a slot to other owners. A build that is only starting its app needs no slot. Also ends
// cancelled builds, and takes over the builds of a killed platform. The rows are the queue, and
// leases make sure that only one process works on a build.
import type { Driver } from "#drivers/driver.ts";
import { Histogram } from "#lib/histogram.ts";
import type { BuildId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { Tally } from "#lib/tally.ts";
import { Leases, type Lease } from "#store/lease.ts";
import type { Notifications } from "#store/notify.ts";
import { BuildStopped } from "./build-ending.ts";
import type { BuildEnd } from "./build-states.ts";
import { readRemoved } from "#apps/app-removal-store.ts";
import { readExisting } from "#apps/app-store.ts";
import { claimable, endAbandoned, readCancelled } from "./build-store.ts";
import { workOnBuild, type BuildParts } from "./build.ts";
import { giveUpArtifacts, readUnfinished, readUsed } from "./release-store.ts";

export type BuildQueueOptions = Omit<BuildParts, "leases"> & {
  readonly driver: Pick<Driver, "collectStorage">;
  readonly notifications: Pick<Notifications, "listen">;
  readonly buildsAtOnce: number;
  /** How many good releases of an app keep their artifacts. */
  readonly releasesKept: number;
  /** The id of the instance. Only one process at a time holds its data folder. */
  readonly instanceId: string;
  /** How long a killed platform's builds wait before they are taken over. */
  readonly leaseMs?: number;
};

type RunningBuild = {
  readonly control: AbortController;
  readonly done: Promise<void>;
  /** True when only the start of the app remains: the build then uses no slot. */
  isBuilt: boolean;
};

/** How long a lease lasts unless it is renewed. */
const leaseMsDefault = 15_000;
/** Notifications start most turns; the interval covers lost notifications and expired leases. */
const intervalMs = 2000;
/** The minimum time between two removals of unused artifacts while builds run. */
const tidyPauseMs = 60_000;
/** The maximum time between two removals: artifacts also become unused when replicas end. */
const tidyEveryMs = 3_600_000;
/**
 * The maximum number of builds whose apps are starting or waiting for a machine, in addition to
 * builds in progress.
 */
const startingMax = 200;

/**
 * The builds of one platform. Call `start()` once; `stop()` puts running builds back into the
 * queue.
 */
export class BuildQueue {
  /** Builds that ended here since the platform started, by final state. */
  readonly ended = new Tally<BuildEnd>(
    "success",
    "build_failure",
    "init_failure",
    "init_timeout",
    "cancelled",
  );
  /** How long builds took, from the start of the work to its end. */
  readonly durations = new Histogram();
  readonly #options: BuildQueueOptions;
  readonly #leases: Leases<"builds">;
  readonly #loop: Loop;
  readonly #running = new Map<BuildId, RunningBuild>();
  /** When unused artifacts are to be removed next, on the monotonic clock. */
  #tidyAtMs = Number.NEGATIVE_INFINITY;
  /** When the last removal of unused artifacts began, on the monotonic clock. */
  #tidiedAtMs = Number.NEGATIVE_INFINITY;
  /** The removal in progress; undefined: there is none. */
  #tidying: Promise<void> | undefined;
  readonly #stopping = new AbortController();

  constructor(options: BuildQueueOptions) {
    const { db, log, clock, notifications } = options;
    this.#options = options;
    this.#leases = new Leases({
      db,
      log,
      clock,
      table: "builds",
      holder: `builds-${options.instanceId}`,
      leaseMs: options.leaseMs ?? leaseMsDefault,
    });
    this.#loop = new Loop({
      name: "builds",
      turn: () => this.#turn(),
      intervalMs,
      log,
      clock,
      listen: (nudge) => notifications.listen("builds", nudge),
    });
  }

  /** Number of builds in progress here. */
  get runningCount(): number {
    return this.#running.size;
  }

  /** Checks whether sources can be fetched, and starts working. */
  async start(): Promise<void> {
    await this.#options.source.check();
    await this.#leases.endEarlier();
    this.#loop.start();
  }

  /** To be called when releases were removed, whose artifacts may now be unused. */
  noteUnused(): void {
    this.#tidySoon();
    this.#loop.nudge();
  }

  /** Puts running builds back into the queue; resolves when no build is in progress any more. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#loop.stop();
    const running = [...this.#running.values()];
    for (const { control } of running) control.abort(new BuildStopped("stopping"));
    await Promise.all(running.map(({ done }) => done));
    await this.#tidying;
  }

  async #turn(): Promise<void> {
    const { db } = this.#options;
    const ids = [...this.#running.keys()];
    if ((await endAbandoned(db, ids)) > 0) this.#tidySoon();
    const cancelled = ids.length === 0 ? [] : await readCancelled(db, ids);
    for (const { id, reason } of cancelled)
      this.#running.get(id)?.control.abort(new BuildStopped("cancelled", reason));
    let hasBegun: boolean;
    do {
      hasBegun = await this.#beginNext();
    } while (hasBegun);
    if (this.#options.clock.monotonicMs() >= this.#tidyAtMs) this.#tidying ??= this.#tidy();
  }

  /** Plans the next removal of artifacts: now when no build runs, else after the usual pause. */
  #tidySoon(): void {
    const nowMs = this.#options.clock.monotonicMs();
    const isIdle = this.#running.size === 0;
    const soonestMs = isIdle ? nowMs : Math.max(nowMs, this.#tidiedAtMs + tidyPauseMs);
    this.#tidyAtMs = Math.min(this.#tidyAtMs, soonestMs);
  }

  /**
   * Starts the next build; false when there is none, or no free slot. Claims one build at a time,
   * since each claim changes which build is next. The projects of one owner may not use all slots
   * while there are other owners: builds take long, and running builds are not interrupted.
   */
  async #beginNext(): Promise<boolean> {
    const { buildsAtOnce } = this.#options;
    const running = [...this.#running.keys()];
    const working = running.filter((id) => this.#running.get(id)?.isBuilt !== true);
    // Beyond the maximum, builds that are only starting their app use slots too.
    const starting = Math.min(running.length - working.length, startingMax);
    if (running.length - starting >= buildsAtOnce) return false;
    // While there are other owners, one owner has at most half as many builds as may be starting
    // their apps. Builds of one owner leave one slot free, unless there is only one slot.
    const share = {
      running,
      runningMax: startingMax / 2,
      working,
      workingMax: Math.max(1, buildsAtOnce - 1),
    };
    const [lease] = await this.#leases.claim({ ...claimable(share), limit: 1 });
    if (lease !== undefined) this.#begin(lease);
    return lease !== undefined;
  }

  #begin(lease: Lease<"builds">): void {
    const control = new AbortController();
    const kept = this.#leases.keep(lease);
    kept.signal.addEventListener("abort", () => control.abort(new BuildStopped("lease_lost")), {
      once: true,
    });
    const onBuilt = (): void => {
      const build = this.#running.get(lease.id);
      if (build !== undefined) build.isBuilt = true;
      this.#loop.nudge();
    };
    const { clock } = this.#options;
    const beganMs = clock.monotonicMs();
    const work = async (): Promise<void> => {
      try {
        const parts = { ...this.#options, leases: this.#leases };
        const end = await workOnBuild(parts, { lease, stop: control.signal, onBuilt });
        if (end === null) return;
        this.ended.count(end);
        this.durations.add(clock.monotonicMs() - beganMs);
      } finally {
        await kept.stop();
        this.#running.delete(lease.id);
        this.#tidySoon();
        this.#loop.nudge();
      }
    };
    this.#running.set(lease.id, { control, done: work(), isBuilt: false });
  }

  /** Removes unused artifacts while builds go on. Never rejects: retries after the usual pause. */
  async #tidy(): Promise<void> {
    const { db, builder, driver, clock, log, releasesKept, source } = this.#options;
    this.#tidiedAtMs = clock.monotonicMs();
    this.#tidyAtMs = this.#tidiedAtMs + tidyEveryMs;
    try {
      await giveUpArtifacts(db, releasesKept);
      await source.collect(
        () => readUnfinished(db),
        (appIds) => readExisting(db, appIds),
      );
      await builder.collect(() => readUsed(db));
      await driver.collectStorage((ids) => readRemoved(db, ids), this.#stopping.signal);
    } catch (error) {
      log.warn({ err: error }, "unused artifacts could not be removed; trying again");
      this.#tidyAtMs = this.#tidiedAtMs + tidyPauseMs;
    } finally {
      this.#tidying = undefined;
    }
  }
}
