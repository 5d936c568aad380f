// Starts and ends individual replicas and tracks their events: keeps memory, row and driver in
// sync. `Scheduler` decides how many there should be. Every action is idempotent.
import { randomUUID } from "node:crypto";
import { StartRefused, type Address, type Driver, type ReplicaEvent } from "#drivers/driver.ts";
import type { PoolWish } from "#drivers/pools/choose-pool.ts";
import type { PoolClaim, PoolRequest } from "#drivers/pools/pool.ts";
import { checksOf } from "#drivers/readiness.ts";
import { must } from "#lib/assert.ts";
import { newReplicaId, type AppId, type ReleaseId, type ReplicaId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Counters } from "./counters.ts";
import type { Occupancy } from "./demand.ts";
import { watchHealth } from "./health.ts";
import type { Probe } from "./probe.ts";
import { Replica, type Fleet, type ReplicaEnd, type ReplicaRelease } from "./replica.ts";
import type { Backend, ReplicaRows, StoredRelease } from "./replica-rows.ts";
import { replicaRow, replicaSpec } from "./replica-spec.ts";
import type { EndOrder } from "./replica-state.ts";
import type { RowWriter } from "./row-writer.ts";
import { reasonUnreached, watchUnreached } from "./unreached.ts";
import { heartbeatIntervalMs } from "./heartbeat.ts";

/** The environment of an app's replicas, including secrets; may change between starts. */
export type EnvironmentOf = (appId: AppId) => Promise<Readonly<Record<string, string | Secret>>>;

/** Callbacks to the scheduler about what needs attention. Each must return at once. */
export type RunnerEvents = {
  readonly onReady: (replica: Replica) => void;
  /**
   * The driver says that the replica is gone. Returns its end as it is to be shown; called before
   * `onEnd`.
   */
  readonly onGone: (replica: Replica, end: ReplicaEnd) => ReplicaEnd;
  /**
   * The replica is gone; `stateBefore` is its last state before that. Lines of it may follow until
   * `onForgotten`.
   */
  readonly onEnd: (replica: Replica, end: ReplicaEnd, stateBefore: Replica["state"]) => void;
  /** The replica's end and all its lines are stored. */
  readonly onForgotten: (replica: Replica, end: ReplicaEnd) => void;
  /** The platform has a line for the log of a replica. */
  readonly onNotice: (replica: Replica, text: string) => void;
  /** The result of its ready check changed, or a start progressed. */
  readonly onChange: (appId: AppId) => void;
};

/** Whose lines a replica prints. */
export type LineOwner = Pick<ReplicaRelease, "projectId" | "appId">;

export type RunnerParts = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Driver;
  readonly backend: Backend;
  readonly rows: ReplicaRows;
  readonly writer: RowWriter;
  readonly fleet: Fleet;
  readonly occupancy: Occupancy;
  readonly environmentOf: EnvironmentOf;
  /**
   * How often an app has been restarted. Read before the environment, so that a start that counts a
   * restart also has the changes that led to it.
   */
  readonly restartsOf: (appId: AppId) => number;
  readonly probe: Probe;
  readonly counters: Counters;
  /** How long a replica without calls may take to exit after SIGTERM. */
  readonly exitMs: number;
  /** Timeout for a machine or its image; the deadline of its start begins after it. */
  readonly pendingMs: number;
  readonly events: RunnerEvents;
};

/** `ahead`: what the start leaves to others. */
type StartOptions = {
  readonly request: PoolRequest;
  readonly ahead: readonly PoolWish[];
  readonly deadlineMs: number;
  readonly isTrial?: boolean;
};

/**
 * After the grace period of its calls, a replica may clean up for this long before it is killed.
 */
const terminateMsMin = 2000;
/** A replica that never took a call has nothing to finish. */
const unreadyGraceMs = 5000;
/** Pause before a retry when a driver failed to stop a replica. */
const stopAgainMs = 5000;
/** Releases never change, so they are cached; this is the cache's limit. */
const releasesMax = 1000;

/** Runs replicas on a driver. */
export class ReplicaRunner {
  readonly #parts: RunnerParts;
  readonly #releases = new LruMap<ReleaseId, StoredRelease>(releasesMax);
  readonly #creating = new Map<Replica, Promise<void>>();
  /** Ended replicas whose lines may still come. */
  readonly #leaving = new Map<ReplicaId, LineOwner>();
  #isStopped = false;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /** Starts a replica; events report the progress. It counts as starting when this returns. */
  start(release: ReplicaRelease, options: StartOptions): Replica {
    const { request } = options;
    const { clock, counters, driver, fleet } = this.#parts;
    const nowMs = clock.now();
    const replica = new Replica({
      replicaId: newReplicaId(release.settings.name),
      release,
      gpus: request.gpuCount,
      beganAtMs: clock.monotonicMs(),
      createdAtMs: nowMs,
      seenAtMs: nowMs,
      restarts: this.#parts.restartsOf(release.appId),
      isTrial: options.isTrial === true,
    });
    if (replica.isTrial) replica.heldUntilMs = Number.POSITIVE_INFINITY;
    replica.isCreating = true;
    // At once, so that nobody else gets it while the start is on its way.
    const claim = driver.pools.reserve(replica.replicaId, request, options.ahead);
    fleet.add(replica);
    counters.starts++;
    replica.deadlineMs = options.deadlineMs;
    this.watchPending(replica);
    const creating = this.#create(replica, request, claim).finally(() => {
      replica.isCreating = false;
      this.#creating.delete(replica);
      this.#parts.events.onChange(replica.appId);
    });
    this.#creating.set(replica, creating);
    return replica;
  }

  /** Abandons a replica that does not run within `pendingMs` of its start. */
  watchPending(replica: Replica): void {
    const { clock, pendingMs } = this.#parts;
    const leftMs = Math.max(0, replica.beganAtMs + pendingMs - clock.monotonicMs());
    const seconds = pendingMs / 1000;
    const minutes = seconds === 60 ? "1 minute" : `${seconds / 60} minutes`;
    const time = seconds % 60 === 0 ? minutes : `${seconds} seconds`;
    this.#endAfter(replica, leftMs, () =>
      replica.isPending
        ? `It did not run within ${time}: no machine was free for it, or its image took longer.`
        : null,
    );
  }

  /**
   * It runs at `address`, now or already before: probes for readiness, and abandons it if it is not
   * ready after `leftMs`.
   */
  watchStarting(replica: Replica, address: Address, leftMs: number): void {
    const { driver, clock, events } = this.#parts;
    replica.isPending = false;
    void watchUnreached(replica, {
      driver,
      clock,
      onFound: (line) => events.onNotice(replica, line),
    });
    this.#endAfter(replica, leftMs, async () => {
      if (replica.state !== "starting") return null;
      const isCortex = replica.settings.runtime === "cortex";
      const found = isCortex ? "Its main.py was still being imported." : replica.notReady;
      const instead = await reasonUnreached(replica, { driver, clock });
      if (replica.state !== "starting") return null;
      const reason = `It did not become ready within ${Math.round(replica.deadlineMs / 1000)} seconds.`;
      return [reason, found, instead, replica.hint].filter((text) => text !== null).join(" ");
    });
    this.watchHealth(replica, address);
  }

  #endAfter(
    replica: Replica,
    afterMs: number,
    reasonNow: () => string | null | Promise<string | null>,
  ): void {
    const endNow = (reason: string | null): void => {
      if (reason !== null) this.end(replica, { reason, kind: "timeout" });
    };
    const cancel = this.#parts.clock.after(afterMs, () => {
      const reason = reasonNow();
      if (reason instanceof Promise) void reason.then(endNow);
      else endNow(reason);
    });
    replica.abort.signal.addEventListener("abort", cancel, { once: true });
  }

  /**
   * Takes a replica out of service and ends it: at once when it never took calls, else after its
   * running calls end.
   */
  end(replica: Replica, order: EndOrder): void {
    if (replica.endOrder !== null) return;
    const { clock, occupancy, writer } = this.#parts;
    const nowMs = clock.monotonicMs();
    const wasReady = replica.state === "ready";
    const mayFinish = wasReady && order.kind !== "stuck";
    const graceMs = mayFinish ? replica.settings.responseGracePeriodSeconds * 1000 : unreadyGraceMs;
    replica.takeOrder(order, { nowMs, graceMs, mayFinish });
    replica.move("draining");
    replica.abort.abort(new Error(order.reason));
    occupancy.retire(replica.replicaId);
    const { replicaId, graceEndsAtMs } = replica;
    const at = replica.timeAt(nowMs);
    const graceEndsAt = replica.timeAt(graceEndsAtMs);
    void writer.change(replicaId, { kind: "draining", at, order, graceEndsAt });
    this.endWhenIdle(replica);
    this.#parts.events.onChange(replica.appId);
  }

  /**
   * Asks the driver to end a draining replica when its calls have ended or their grace period is
   * over. Called every turn.
   */
  endWhenIdle(replica: Replica): void {
    const { clock, occupancy } = this.#parts;
    if (replica.state !== "draining" || replica.terminating === "idle") return;
    const isIdle = occupancy.running(replica.replicaId) === 0;
    if (isIdle) void this.#terminate(replica, "idle");
    else if (replica.terminating === "no" && clock.monotonicMs() >= replica.terminateAtMs)
      void this.#terminate(replica, "busy");
  }

  /** Handles an event of the driver. Events of unknown replicas concern ones settled before. */
  event(event: ReplicaEvent): void {
    const replica = this.#parts.fleet.get(event.replicaId);
    if (replica === undefined || this.#isStopped) return;
    switch (event.kind) {
      case "started":
        replica.hint = event.hint;
        void this.#parts.writer.change(replica.replicaId, {
          kind: "started",
          at: replica.timeAt(this.#parts.clock.monotonicMs()),
          address: event.address,
        });
        if (replica.state === "starting")
          this.watchStarting(replica, event.address, replica.deadlineMs);
        return;
      case "exited":
        this.ended(replica, { ...event, at: event.at ?? replica.seenAtMs });
    }
  }

  #becomeReady(replica: Replica, address: Address): void {
    if (replica.state !== "starting") return;
    const { clock, counters, writer } = this.#parts;
    const nowMs = clock.monotonicMs();
    replica.becomeReady(address, nowMs);
    counters.coldStarts.add(nowMs - replica.beganAtMs);
    void writer.change(replica.replicaId, { kind: "ready", at: replica.timeAt(nowMs), address });
    this.#parts.events.onReady(replica);
  }

  /** Checks readiness and health of a replica from now on, until it ends. */
  watchHealth(replica: Replica, address: Address): void {
    void watchHealth({
      checks: { address, ...checksOf(replica.release.settings) },
      isReady: replica.state === "ready",
      events: {
        onReady: () => this.#becomeReady(replica, address),
        onNotReady: (reason) => (replica.notReady = reason),
        onRouted: (isRouted) => {
          replica.isRouted = isRouted;
          this.#parts.events.onChange(replica.appId);
        },
        onUnhealthy: (reason) => {
          this.#parts.counters.unhealthy++;
          this.end(replica, { reason, kind: "unhealthy" });
        },
      },
      probe: this.#parts.probe,
      clock: this.#parts.clock,
      signal: replica.abort.signal,
    });
  }

  /** Settles a replica that is gone: only once, whoever reports it first. */
  ended(replica: Replica, how: ReplicaEnd): void {
    if (replica.state === "stopped" || this.#isStopped) return;
    const { counters, fleet, events, writer } = this.#parts;
    const stateBefore = replica.state;
    const shown = events.onGone(replica, how);
    const end = stateBefore === "starting" ? withHint(shown, replica.hint) : shown;
    const reason = replica.endOrder?.reason ?? end.reason;
    replica.move("stopped");
    fleet.remove(replica);
    this.#leaving.set(replica.replicaId, replica.release);
    replica.abort.abort(new Error(reason));
    counters.ends++;
    void writer
      .change(replica.replicaId, {
        kind: "stopped",
        at: this.#endOf(replica, end.at),
        reason,
        exitCode: end.exitCode,
      })
      .then(() => this.forget(replica.replicaId, replica.release))
      .then(() => this.#isStopped || events.onForgotten(replica, end));
    events.onEnd(replica, end, stateBefore);
  }

  /**
   * The time of its end, between when it was last seen running and now; `at` comes from a clock
   * that may have stepped. It may have ended shortly before it was last seen, since detection takes
   * a moment.
   */
  #endOf(replica: Replica, at: number): number {
    const nowMs = replica.timeAt(this.#parts.clock.monotonicMs());
    return at < replica.seenAtMs - heartbeatIntervalMs ? replica.seenAtMs : Math.min(at, nowMs);
  }

  /** Whose a line of the replica is; undefined: nobody's, so far as this database knows. */
  ownerOf(replicaId: ReplicaId): LineOwner | undefined {
    return this.#parts.fleet.get(replicaId)?.release ?? this.#leaving.get(replicaId);
  }

  /**
   * Lets the driver deliver the last lines, for `owner`, of a replica whose end is stored, and
   * remove what is left of it.
   */
  async forget(replicaId: ReplicaId, owner: LineOwner | undefined): Promise<void> {
    if (owner !== undefined) this.#leaving.set(replicaId, owner);
    try {
      await this.#parts.driver.forget(replicaId);
    } catch (error) {
      // The next start of the platform finds it in the driver's list and retries.
      this.#parts.log.warn({ err: error, replicaId }, "the driver could not forget a replica");
    } finally {
      this.#leaving.delete(replicaId);
    }
  }

  /** Waits at most `waitMs` for starts that the driver has not answered, then abandons them. */
  async settleStarts(waitMs: number): Promise<void> {
    const cancel = this.#parts.clock.after(waitMs, () => {
      for (const replica of this.#creating.keys())
        replica.abort.abort(new Error("the platform stops"));
    });
    await Promise.all(this.#creating.values());
    cancel();
  }

  /**
   * Stops all probes and deadlines and ignores further events: the platform stops, replicas keep
   * running.
   */
  stopWatching(): void {
    this.#isStopped = true;
    for (const replica of this.#parts.fleet.all())
      replica.abort.abort(new Error("the platform stops"));
  }

  async #create(
    replica: Replica,
    { compute, provider, region }: PoolRequest,
    claim: PoolClaim | null,
  ): Promise<void> {
    const { driver, backend, environmentOf, writer } = this.#parts;
    const { release, replicaId, restarts, isTrial } = replica;
    const pool = driver.pools.all.find(({ name }) => name === claim?.pool);
    const row = replicaRow(release, {
      replicaId,
      compute,
      isTrial,
      restarts,
      backend,
      provider: pool?.provider ?? provider,
      region: pool?.region ?? region,
      createdAt: replica.timeAt(replica.beganAtMs),
    });
    try {
      // Store the row before the replica exists, so that no replica ever runs unrecorded.
      const [, stored, environment] = await Promise.all([
        writer.insert(row),
        this.#release(release.releaseId),
        environmentOf(release.appId),
      ]);
      replica.abort.signal.throwIfAborted();
      await driver.start(
        replicaSpec(stored, { replicaId, compute, environment }),
        replica.abort.signal,
      );
    } catch (error) {
      await this.#abandon(replica, error);
    }
  }

  /** Handles a failed start. Waiting writes follow the row's insert, whatever its result. */
  async #abandon(replica: Replica, error: unknown): Promise<void> {
    const { clock, driver, log } = this.#parts;
    const { replicaId } = replica;
    const isAborted = replica.abort.signal.aborted;
    if (error instanceof StartRefused) {
      const reason = isAborted ? "The platform stopped." : error.message;
      const isExternal = error.kind === "no_capacity";
      this.ended(replica, {
        reason,
        exitCode: null,
        at: clock.now(),
        isExternal,
        isRefused: !isExternal,
      });
      return;
    }
    // Only a refusal guarantees that nothing was left behind.
    await driver.stop(replicaId, { graceMs: 0 }).catch((cause: unknown) => {
      log.warn({ err: cause, replicaId }, "could not clear up after a failed start");
    });
    const reason = isAborted ? "The platform stopped." : this.#internalFault(replicaId, error);
    this.ended(replica, { reason, exitCode: null, at: clock.now() });
  }

  #internalFault(replicaId: ReplicaId, error: unknown): string {
    const faultId = randomUUID();
    this.#parts.log.error({ err: error, replicaId, faultId }, "could not start a replica");
    return `The platform could not start it (fault ${faultId}).`;
  }

  async #release(releaseId: ReleaseId): Promise<StoredRelease> {
    const known = this.#releases.get(releaseId);
    if (known !== undefined) return known;
    const stored = must(
      await this.#parts.rows.release(releaseId),
      `release ${releaseId} is not stored`,
    );
    this.#releases.set(releaseId, stored);
    return stored;
  }

  async #terminate(replica: Replica, how: "busy" | "idle"): Promise<void> {
    const { clock, driver, exitMs, log } = this.#parts;
    replica.terminating = how;
    await this.#creating.get(replica);
    if (replica.state === "stopped") return;
    const leftMs = Math.max(terminateMsMin, replica.graceEndsAtMs - clock.monotonicMs());
    // The driver keeps the earlier of two ends.
    const graceMs = how === "idle" ? Math.min(exitMs, leftMs) : leftMs;
    try {
      await driver.stop(replica.replicaId, { graceMs });
    } catch (error) {
      log.error(
        { err: error, replicaId: replica.replicaId },
        "the driver could not stop a replica",
      );
      replica.terminateAtMs = clock.monotonicMs() + stopAgainMs;
      clock.after(stopAgainMs, () => {
        replica.terminating = "no";
        this.endWhenIdle(replica);
      });
      return;
    }
    // The driver's own event usually comes first; a replica unknown to the driver is gone too.
    this.ended(replica, { reason: "It is gone.", exitCode: null, at: clock.now() });
  }
}

/** What the driver noticed at the start probably explains why the app did not become ready. */
function withHint(end: ReplicaEnd, hint: string | null): ReplicaEnd {
  if (hint === null) return end;
  const sentence = /[.!?]$/.test(end.reason) ? end.reason : `${end.reason}.`;
  return { ...end, reason: `${sentence} ${hint}` };
}
