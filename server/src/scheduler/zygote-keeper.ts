// Keeps zygotes of the releases that were used lately, so that their next replicas start without an
// import. Makes one at a time, after a replica of the release has become ready in the ordinary way.
import type { Driver, ReplicaSpec, ZygoteReport, ZygoteState } from "#drivers/driver.ts";
import type { ReleaseId, ReplicaId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import type { RouteSource, SchedulerRoute } from "./app-state.ts";
import type { DemandSource } from "./demand.ts";
import type { Fleet, Replica } from "./replica.ts";
import type { ReplicaLines } from "./replica-lines.ts";
import type { ReplicaStarter } from "./replica-starter.ts";
import type { UsageSampler } from "./usage-sampler.ts";
import { planZygotes, type ZygoteCandidate } from "./zygote-plan.ts";

type ZygoteKeeperParts = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Pick<Driver, "zygotes">;
  readonly fleet: Pick<Fleet, "all">;
  readonly routes: Pick<RouteSource, "all" | "byAppId">;
  readonly demand: DemandSource;
  readonly starter: Pick<ReplicaStarter, "specOf">;
  readonly sampler: UsageSampler;
  /** The memory of all zygotes together, in bytes; 0: there are none. */
  readonly budgetBytes: number;
  readonly lines: Pick<ReplicaLines, "notice">;
};

const turnEveryMs = 5_000;
/** How old a zygote may become: what the import has read is as old. */
const ageMaxMs = 24 * 3_600_000;
/** How long after a failure the same release is tried again. */
const retryMs = 600_000;
/** How long the import of an app may take. */
const prepareMs = 600_000;
/** The expected memory of a zygote whose app was not measured. */
const memoryBytesDefault = 100_000_000;

/** A release that has no zygote although one was to be made. */
type Tried = {
  /** When it may be tried again, in `Clock.monotonicMs`. */
  readonly againAtMs: number;
  /** What the app's log will say, beside the next ready replica; null: it says so already. */
  notice: string | null;
};

type Made = { readonly id: ReplicaId; readonly atMs: number; readonly restarts: number };

/** Makes and ends zygotes, from `start` to `stop`. */
export class ZygoteKeeper {
  readonly #parts: ZygoteKeeperParts;
  readonly #loop: Loop;
  readonly #reader: ReturnType<UsageSampler["reader"]>;
  /** The memory of replicas that have become ready, by release; what is here can be imported. */
  readonly #imported = new Map<ReleaseId, number>();
  /** The zygote of each release, when it was made, and how often its app was restarted then. */
  readonly #made = new Map<ReleaseId, Made>();
  readonly #tried = new Map<ReleaseId, Tried>();
  #preparing: Promise<void> | null = null;
  readonly #abort = new AbortController();

  constructor(parts: ZygoteKeeperParts) {
    const { clock, log, sampler } = parts;
    this.#parts = parts;
    this.#reader = sampler.reader();
    this.#loop = new Loop({
      name: "zygotes",
      intervalMs: turnEveryMs,
      clock,
      log,
      turn: () => this.#turn(),
    });
  }

  start(): void {
    const { driver, budgetBytes, log } = this.#parts;
    if (driver.zygotes === null || budgetBytes === 0) return;
    const { unavailable } = driver.zygotes;
    if (unavailable === null) this.#loop.start();
    else log.info({ reason: unavailable }, "each replica imports its app: there can be no zygotes");
  }

  /** Gives up the zygote that is being made; the driver ends the others. */
  async stop(): Promise<void> {
    this.#abort.abort(new Error("the platform stops"));
    await this.#loop.stop();
    await this.#preparing;
  }

  async #turn(): Promise<void> {
    const { driver, budgetBytes } = this.#parts;
    const zygotes = driver.zygotes;
    if (zygotes === null) return;
    await this.#seeImported();
    const routes = [...this.#parts.routes.all()];
    this.#forgetOthers(routes);
    this.#seeEnded(zygotes.list());
    for (const zygote of zygotes.list()) await this.#endOutdated(zygote);
    const candidates = routes.flatMap((route) => this.#candidatesOf(route));
    const plan = planZygotes(candidates, zygotes.list(), budgetBytes);
    for (const id of plan.ends) this.#end(id);
    const { next } = plan;
    if (next === null || this.#preparing !== null) return;
    this.#preparing = this.#prepare(next).finally(() => {
      this.#preparing = null;
    });
  }

  /** Notes the memory of ready replicas. */
  async #seeImported(): Promise<void> {
    const { uses } = await this.#reader.read();
    for (const replica of this.#parts.fleet.all()) {
      const { replicaId, readyAtMs, release } = replica;
      if (readyAtMs === null) continue;
      this.#tellOwner(replica);
      const measured = uses.get(replicaId)?.memoryBytes ?? 0;
      const before = this.#imported.get(release.releaseId) ?? memoryBytesDefault;
      this.#imported.set(release.releaseId, measured > 0 ? measured : before);
    }
  }

  /** Says in the app's log, once, why its replicas are not forked. */
  #tellOwner(replica: Replica): void {
    const tried = this.#tried.get(replica.release.releaseId);
    if (tried === undefined || tried.notice === null) return;
    this.#parts.lines.notice(replica, tried.notice);
    tried.notice = null;
  }

  /** Forgets releases that take no calls any more. */
  #forgetOthers(routes: readonly SchedulerRoute[]): void {
    const served = new Set(routes.flatMap(({ live }) => live?.releaseId ?? []));
    for (const known of [this.#imported, this.#made, this.#tried])
      for (const releaseId of known.keys()) if (!served.has(releaseId)) known.delete(releaseId);
  }

  #candidatesOf({ appId, live }: SchedulerRoute): ZygoteCandidate[] {
    const { demand, clock } = this.#parts;
    const memoryBytes = live === null ? undefined : this.#imported.get(live.releaseId);
    if (live === null || memoryBytes === undefined) return [];
    const { releaseId, settings } = live;
    const isTried = (this.#tried.get(releaseId)?.againAtMs ?? 0) > clock.monotonicMs();
    const hasCards = settings.gpuCount > 0 && !settings.compute.includes("CPU");
    if (settings.runtime !== "cortex" || hasCards || isTried) return [];
    const usedAtMs = demand.demandOf(appId).lastActiveAtMs ?? 0;
    return [{ appId, releaseId, usedAtMs, memoryBytes }];
  }

  /** Ends a zygote whose app was restarted since, or has other variables now. */
  async #endOutdated({ id, appId, releaseId }: ZygoteState): Promise<void> {
    const { driver, routes, starter, clock } = this.#parts;
    const route = routes.byAppId(appId);
    if (route?.live?.releaseId !== releaseId) return;
    const { atMs = 0, restarts } = this.#made.get(releaseId) ?? {};
    const isOld = clock.monotonicMs() - atMs > ageMaxMs;
    const isOutdated = isOld || restarts !== route.restarts;
    const spec = isOutdated ? null : await starter.specOf({ appId, releaseId });
    if (spec === null || driver.zygotes?.has(spec) !== true) this.#end(id);
  }

  #end(id: ReplicaId): void {
    for (const [releaseId, made] of this.#made) if (made.id === id) this.#made.delete(releaseId);
    this.#parts.driver.zygotes?.end(id);
  }

  /** Waits with the next try where a zygote has ended without being asked to. */
  #seeEnded(zygotes: readonly ZygoteState[]): void {
    const againAtMs = this.#parts.clock.monotonicMs() + retryMs;
    const ids = new Set(zygotes.map(({ id }) => id));
    for (const [releaseId, { id }] of this.#made) {
      if (ids.has(id)) continue;
      this.#made.delete(releaseId);
      this.#tried.set(releaseId, { againAtMs, notice: null });
    }
  }

  async #prepare({ appId, releaseId }: ZygoteCandidate): Promise<void> {
    const { driver, routes, starter, clock, log } = this.#parts;
    const { restarts } = routes.byAppId(appId) ?? {};
    if (driver.zygotes === null || restarts === undefined) return;
    const slow = new AbortController();
    const cancel = clock.after(prepareMs, () => slow.abort(new Error("the import takes too long")));
    try {
      const spec = await starter.specOf({ appId, releaseId });
      const signal = AbortSignal.any([this.#abort.signal, slow.signal]);
      const report = await driver.zygotes.prepare(spec, signal);
      if (report.kind === "ready")
        this.#made.set(releaseId, { id: spec.replicaId, atMs: clock.monotonicMs(), restarts });
      if (!signal.aborted || slow.signal.aborted) this.#note(report, spec);
    } catch (error) {
      this.#tried.set(releaseId, { againAtMs: clock.monotonicMs() + retryMs, notice: null });
      log.warn({ err: error, appId, releaseId }, "could not make a zygote");
    } finally {
      cancel();
    }
  }

  #note(report: ZygoteReport, { appId, releaseId }: ReplicaSpec): void {
    const { clock, log } = this.#parts;
    if (report.kind === "ready") {
      log.info({ appId, releaseId }, "replicas of a release are forked from now on");
      return;
    }
    const isRefused = report.kind === "refused";
    const againAtMs = isRefused ? Number.POSITIVE_INFINITY : clock.monotonicMs() + retryMs;
    const notice = refusedText(isRefused ? report.reasons : [report.reason]);
    this.#tried.set(releaseId, { againAtMs, notice });
    log.info({ appId, releaseId, report }, "replicas of a release are not forked");
  }
}

function refusedText(reasons: readonly string[]): string {
  return `Each replica of this release imports the app when it starts. It would start faster as a fork of a process that has imported the app, but that cannot be forked: ${reasons.join("; ")}.`;
}
