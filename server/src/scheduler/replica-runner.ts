// Starts and ends single replicas and follows what happens to them: memory, row and driver stay in step here. It takes
// no decisions on how many there should be; `Scheduler` does. Every act may be repeated without harm.
import { randomUUID } from "node:crypto";
import { StartRefused, type Address, type Driver, type ReplicaEvent } from "#drivers/driver.ts";
import { checksOf } from "#drivers/readiness.ts";
import { must } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import { newReplicaId, type AppId, type ReleaseId, type ReplicaId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import type { Counters } from "./counters.ts";
import type { Occupancy } from "./demand.ts";
import { watchHealth } from "./health.ts";
import type { Probe } from "./probe.ts";
import { Replica, type Fleet, type EndOrder, type ReplicaEnd, type ReplicaRelease } from "./replica.ts";
import type { ReplicaRows, StoredRelease } from "./replica-rows.ts";
import { gpuCountOf, replicaRow, replicaSpec } from "./replica-spec.ts";
import type { RowWriter } from "./row-writer.ts";
import { heartbeatIntervalMs } from "./heartbeat.ts";

/** The environment of an app's replicas, secrets included; may change from start to start. */
export type EnvironmentOf = (appId: AppId) => Promise<Readonly<Record<string, string | Secret>>>;

/** Whoever decides is told of what it has to look at again. Both must return at once. */
export type RunnerEvents = {
  readonly onReady: (replica: Replica) => void;
  /** The replica is gone; `stateBefore` says how far it had come. */
  readonly onEnd: (replica: Replica, end: ReplicaEnd, stateBefore: Replica["state"]) => void;
  /** Its ready check began or ceased to pass, or a start went on. */
  readonly onChange: (appId: AppId) => void;
};

export type RunnerParts = {
  readonly driver: Driver;
  readonly rows: ReplicaRows;
  readonly writer: RowWriter;
  readonly fleet: Fleet;
  readonly occupancy: Occupancy;
  readonly environmentOf: EnvironmentOf;
  /** How often an app has been restarted. Asked before the environment, so that what began with a restart has what led to it. */
  readonly restartsOf: (appId: AppId) => number;
  readonly probe: Probe;
  readonly counters: Counters;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: RunnerEvents;
};

/** After the calls of a replica have had their time, it may still tidy up for so long before it is ended by force. */
const terminateMsMin = 2000;
/** A replica that never took a call has nothing to finish. */
const unreadyGraceMs = 5000;
/** Calls that still run (a WebSocket may run for ever) learn this long before the end that it comes. */
const noticeMs = 30_000;
/** Pause before a driver that failed to stop a replica is asked again. */
const stopAgainMs = 5000;
/** For a machine with room, or its image; the time that its start may take begins after it. */
const pendingMsMax = 600_000;
/** What never changes is read once; so many releases are kept. */
const releasesMax = 1000;

/** Runs replicas on a driver. */
export class ReplicaRunner {
  readonly #parts: RunnerParts;
  readonly #releases = new Map<ReleaseId, StoredRelease>();
  readonly #creating = new Map<Replica, Promise<void>>();
  #isStopped = false;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /** Starts a replica; how it goes is told by events. It counts as starting when this returns. */
  start(release: ReplicaRelease, options: { compute: string; deadlineMs: number; isTrial?: boolean }): Replica {
    const { compute } = options;
    const { clock, counters, fleet } = this.#parts;
    const nowMs = clock.now();
    const replica = new Replica({
      replicaId: newReplicaId(release.settings.name),
      release,
      gpus: gpuCountOf(release.settings, compute),
      beganAtMs: clock.monotonicMs(),
      createdAtMs: nowMs,
      seenAtMs: nowMs,
      restarts: this.#parts.restartsOf(release.appId),
      isTrial: options.isTrial === true,
    });
    if (replica.isTrial) replica.heldUntilMs = Number.POSITIVE_INFINITY;
    replica.isCreating = true;
    fleet.add(replica);
    counters.starts++;
    replica.deadlineMs = options.deadlineMs;
    this.watchPending(replica);
    const creating = this.#create(replica, compute).finally(() => {
      replica.isCreating = false;
      this.#creating.delete(replica);
      this.#parts.events.onChange(replica.appId);
    });
    this.#creating.set(replica, creating);
    return replica;
  }

  /** Gives up on a replica that does not run within `pendingMsMax` of its beginning. */
  watchPending(replica: Replica): void {
    const minutes = Math.round(pendingMsMax / 60_000);
    const leftMs = Math.max(0, replica.beganAtMs + pendingMsMax - this.#parts.clock.monotonicMs());
    this.#endAfter(replica, leftMs, () =>
      replica.isPending ? `No machine had room for it within ${minutes} minutes.` : null,
    );
  }

  /** It runs at `address` from now on, or did before: asks it whether it is ready, and gives up when it is not `leftMs` from now. */
  watchStarting(replica: Replica, address: Address, leftMs: number): void {
    replica.isPending = false;
    this.#endAfter(replica, leftMs, () => {
      if (replica.state !== "starting") return null;
      const reason = `It did not become ready within ${Math.round(replica.deadlineMs / 1000)} seconds.`;
      return replica.hint === null ? reason : `${reason} ${replica.hint}`;
    });
    this.watchHealth(replica, address);
  }

  #endAfter(replica: Replica, afterMs: number, reasonNow: () => string | null): void {
    const cancel = this.#parts.clock.after(afterMs, () => {
      const reason = reasonNow();
      if (reason !== null) this.end(replica, { reason, kind: "timeout" });
    });
    replica.abort.signal.addEventListener("abort", cancel, { once: true });
  }

  /** Takes a replica out of service and ends it: at once when it never took calls, else after its running calls ended. */
  end(replica: Replica, order: EndOrder): void {
    if (replica.endOrder !== null) return;
    const { clock, occupancy, writer } = this.#parts;
    const nowMs = clock.monotonicMs();
    const wasReady = replica.state === "ready";
    const mayFinish = wasReady && order.kind !== "stuck";
    const graceMs = mayFinish ? replica.release.settings.responseGracePeriodSeconds * 1000 : unreadyGraceMs;
    replica.endOrder = order;
    replica.graceEndsAtMs = nowMs + graceMs;
    replica.terminateAtMs = mayFinish ? nowMs + graceMs - Math.min(noticeMs, graceMs / 4) : nowMs;
    replica.move("draining");
    replica.abort.abort(new Error(order.reason));
    occupancy.retire(replica.replicaId);
    void writer.change(replica.replicaId, { kind: "draining", at: replica.timeAt(nowMs) });
    this.endWhenIdle(replica);
    this.#parts.events.onChange(replica.appId);
  }

  /** Asks the driver to end a replica being drained if its calls have ended or had their time. Called at every look. */
  endWhenIdle(replica: Replica): void {
    const { clock, occupancy } = this.#parts;
    if (replica.state !== "draining" || replica.isTerminating) return;
    const isIdle = occupancy.running(replica.replicaId) === 0;
    if (isIdle || clock.monotonicMs() >= replica.terminateAtMs) void this.#terminate(replica);
  }

  /** Takes in what a driver says. Events of unknown replicas are of ones that were settled before. */
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
        if (replica.state === "starting") this.watchStarting(replica, event.address, replica.deadlineMs);
        return;
      case "exited":
        this.ended(replica, { reason: event.reason, exitCode: event.exitCode, at: event.at ?? replica.seenAtMs });
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

  /** Asks a replica whether it is ready and healthy from now on, until it is ended. */
  watchHealth(replica: Replica, address: Address): void {
    void watchHealth({
      checks: { address, ...checksOf(replica.release.settings) },
      isReady: replica.state === "ready",
      events: {
        onReady: () => this.#becomeReady(replica, address),
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

  /** Settles a replica that is gone: once, whoever says it first. */
  ended(replica: Replica, how: ReplicaEnd): void {
    if (replica.state === "stopped" || this.#isStopped) return;
    const { counters, fleet, events, writer } = this.#parts;
    const stateBefore = replica.state;
    const end = stateBefore === "starting" ? withHint(how, replica.hint) : how;
    const reason = replica.endOrder?.reason ?? end.reason;
    replica.move("stopped");
    fleet.remove(replica);
    replica.abort.abort(new Error(reason));
    counters.ends++;
    void writer
      .change(replica.replicaId, { kind: "stopped", at: this.#endOf(replica, end.at), reason, exitCode: end.exitCode })
      .then(() => this.forget(replica.replicaId));
    events.onEnd(replica, end, stateBefore);
  }

  /**
   * When it ended, between when it was seen to run and now; `at` is by a clock that may have stepped. It may have ended shortly
   * before it was last seen, as it takes a moment until that is known.
   */
  #endOf(replica: Replica, at: number): number {
    const nowMs = replica.timeAt(this.#parts.clock.monotonicMs());
    return at < replica.seenAtMs - heartbeatIntervalMs ? replica.seenAtMs : Math.min(at, nowMs);
  }

  /** Lets the driver drop what is left of a replica whose end is stored. */
  async forget(replicaId: ReplicaId): Promise<void> {
    try {
      await this.#parts.driver.forget(replicaId);
    } catch (error) {
      // The next start of the platform finds it in the driver's list and tries again.
      this.#parts.log.warn({ err: error, replicaId }, "the driver could not forget a replica");
    }
  }

  /** Waits for starts that the driver has not answered, at most `waitMs`, then abandons them. */
  async settleStarts(waitMs: number): Promise<void> {
    const cancel = this.#parts.clock.after(waitMs, () => {
      for (const replica of this.#creating.keys()) replica.abort.abort(new Error("the platform stops"));
    });
    await Promise.all(this.#creating.values());
    cancel();
  }

  /** Ends all probes and deadlines, and takes in nothing more: the platform stops, replicas go on running. */
  stopWatching(): void {
    this.#isStopped = true;
    for (const replica of this.#parts.fleet.all()) replica.abort.abort(new Error("the platform stops"));
  }

  async #create(replica: Replica, compute: string): Promise<void> {
    const { driver, environmentOf, writer } = this.#parts;
    const { release, replicaId, restarts, isTrial } = replica;
    const row = replicaRow(release, {
      replicaId,
      compute,
      backend: driver,
      isTrial,
      restarts,
      createdAt: replica.timeAt(replica.beganAtMs),
    });
    try {
      // The row is durable before the replica exists, so that no replica ever runs unrecorded.
      const [, stored, environment] = await Promise.all([
        writer.insert(row),
        this.#release(release.releaseId),
        environmentOf(release.appId),
      ]);
      replica.abort.signal.throwIfAborted();
      await driver.start(replicaSpec(stored, { replicaId, compute, environment }), replica.abort.signal);
    } catch (error) {
      await this.#abandon(replica, error);
    }
  }

  /** A start that did not come about. What waits in the writer follows the row's insert, however that goes. */
  async #abandon(replica: Replica, error: unknown): Promise<void> {
    const { clock, driver, log } = this.#parts;
    const { replicaId } = replica;
    const isAborted = replica.abort.signal.aborted;
    if (error instanceof StartRefused) {
      const reason = isAborted ? "The platform stopped." : error.message;
      const hasNoRoom = error.kind === "no_capacity";
      this.ended(replica, { reason, exitCode: null, at: clock.now(), hasNoRoom });
      return;
    }
    // Only a refusal promises that nothing was left behind.
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
    const stored = must(await this.#parts.rows.release(releaseId), `release ${releaseId} is not stored`);
    const [oldest] = this.#releases.keys();
    if (this.#releases.size >= releasesMax && oldest !== undefined) this.#releases.delete(oldest);
    this.#releases.set(releaseId, stored);
    return stored;
  }

  async #terminate(replica: Replica): Promise<void> {
    const { clock, driver, log } = this.#parts;
    replica.isTerminating = true;
    await this.#creating.get(replica);
    if (replica.state === "stopped") return;
    const graceMs = Math.max(terminateMsMin, replica.graceEndsAtMs - clock.monotonicMs());
    try {
      await driver.stop(replica.replicaId, { graceMs });
    } catch (error) {
      log.error({ err: error, replicaId: replica.replicaId }, "the driver could not stop a replica");
      replica.terminateAtMs = clock.monotonicMs() + stopAgainMs;
      clock.after(stopAgainMs, () => {
        replica.isTerminating = false;
        this.endWhenIdle(replica);
      });
      return;
    }
    // The driver's own word came before, as a rule; a replica that it did not know is gone too.
    this.ended(replica, { reason: "It is gone.", exitCode: null, at: clock.now() });
  }
}

/** What the driver found odd at the start probably explains why the app did not come so far as to be ready. */
function withHint(end: ReplicaEnd, hint: string | null): ReplicaEnd {
  if (hint === null) return end;
  const sentence = /[.!?]$/.test(end.reason) ? end.reason : `${end.reason}.`;
  return { ...end, reason: `${sentence} ${hint}` };
}
