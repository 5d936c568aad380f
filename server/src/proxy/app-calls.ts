// Admission of one app's calls: a slot on a replica with free capacity, or a position in the
// bounded line. Invariants: nobody waits while a replica has capacity; no replica is sent more
// calls than its concurrency, except with random-choice-2; each slot is released exactly once.
import { getOrInsert } from "#lib/get-or-insert.ts";
import type { LoadBalancingAlgorithm } from "@slipway/contract/app-choices.ts";
import { assert } from "#lib/assert.ts";
import { Fault, type FaultCode } from "#lib/fault.ts";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";
import type { ReadyReplica, ReleaseShare, StartFailure } from "#scheduler/replica-view.ts";
import type { AdmittedCall, Live } from "./admitted-call.ts";
import { lineTimeout } from "./call-faults.ts";
import { choose, type RoundRobin } from "./choose.ts";
import { Line } from "./line.ts";
import type { CallMeter } from "./call-meter.ts";
import { ReplicaPool, type PoolParts } from "./replica-pool.ts";
import { ReleaseTally } from "./release-tally.ts";
import { ReplicaSlot } from "./replica-slot.ts";
import { dividedBetween, findShared, type SharedSlots } from "./shared-slots.ts";

/** The part of `ReplicaView` that admission reads. */
export type Replicas = {
  ready(appId: AppId): readonly ReadyReplica[];
  failure(appId: AppId): StartFailure | undefined;
  shares(appId: AppId): readonly ReleaseShare[] | null;
};

/** Limits of each app's line. */
export type LineLimits = {
  /** How many calls may wait; further ones are refused. */
  readonly lineLengthMax: number;
  /**
   * How long a call may wait; undefined: as long as a start or a preceding call may take by the
   * app's settings.
   */
  readonly lineWaitMs?: number;
};

export type AppCallsParts = PoolParts & {
  /** The scheduler's view of replicas. */
  readonly replicas: Replicas;
  readonly limits: LineLimits;
  /** The slots of all apps. */
  readonly slots: Map<ReplicaId, ReplicaSlot>;
  /** Makes the scheduler look at the app. */
  readonly nudge: (appId: AppId) => void;
  readonly monotonicMs: () => number;
  /** Returns a random number from 0, inclusive, to 1, exclusive. */
  readonly random: () => number;
};

/**
 * How long a replica gets no calls after it could not be reached, or has refused a call. By then
 * the platform usually knows whether the replica is dead; a live one is not idle for long.
 */
const unreachablePauseMs = 300;

/**
 * After how many seconds callers should try again when the line is full. The number is a guess: the
 * line moves as fast as calls end.
 */
const fullRetrySeconds = 1;
/** How many releases of an app have counters. After quick deploys more than two may serve. */
const talliesMax = 4;
const noReplicas: readonly ReadyReplica[] = [];

/** A call that a replica works on, and that this proxy did not send. */
type Hold = {
  readonly replicaId: ReplicaId;
  /** The slot that counts the call; null: the view does not list the replica yet. */
  slot: ReplicaSlot | null;
};

/** The calls of one app; exists from its first call or first replica until the app is deleted. */
export class AppCalls {
  /** Counts the app's calls. */
  readonly meter: CallMeter;
  readonly #parts: AppCallsParts;
  readonly #line = new Line<AdmittedCall>();
  /** Replicas that the view lists, or that still work on calls. */
  readonly #slots = new Set<ReplicaSlot>();
  /** Replicas that take calls, in the order of the view. */
  #open: readonly ReplicaSlot[] = [];
  /** `#open`, grouped by release; null while only one release takes calls. */
  #shared: readonly SharedSlots[] | null = null;
  /** The view's shares of the releases, from which `#shared` was made. */
  #shares: readonly ReleaseShare[] | null = null;
  /** The counters of the releases that had replicas lately. */
  readonly #tallies = new LruMap<ReleaseId, ReleaseTally>(talliesMax);
  /** The view's ready replicas, from which `#slots` was made. */
  #ready = noReplicas;
  /** The calls of `hold` that are not over. */
  readonly #holds = new Set<Hold>();
  /** The replica in `#open` that the round-robin algorithm tries first. */
  readonly #cursor: RoundRobin = { next: 0 };
  /** The algorithm that the live release chose when the latest call entered. */
  #algorithm: LoadBalancingAlgorithm = "round-robin";

  constructor(meter: CallMeter, parts: AppCallsParts) {
    this.meter = meter;
    this.#parts = parts;
  }

  /** True when nothing is left to keep: no replica, and no call. */
  get isIdle(): boolean {
    return this.#slots.size === 0 && this.#line.length === 0 && this.#holds.size === 0;
  }

  /** Gives the call a slot or a position in the line; returns a fault if it gets neither. */
  enter(call: AdmittedCall): Fault | null {
    const { replicas, deadlines, nudge } = this.#parts;
    const { meter } = this;
    const { appId } = meter;
    this.#algorithm = call.live.settings.loadBalancingAlgorithm;
    meter.receivedTotal++;
    meter.lastActiveAtMs = call.arrivedAtMs;
    if (replicas.ready(appId) !== this.#ready) this.refresh();
    // Calls that already wait get free slots before this one.
    const slot = this.#line.length === 0 ? this.#findSlot() : undefined;
    if (slot !== undefined) {
      this.#begin(call, slot, call.arrivedAtMs);
      return null;
    }
    const startFault = this.#startFault();
    // The caller has already checked that the app is not stopped: if the view still says that it
    // is, the view is outdated, and its fault is ignored.
    const isOutdated = startFault?.code === "budget_reached" || startFault?.code === "app_stopped";
    const validStartFault = isOutdated ? null : startFault;
    const fault = validStartFault ?? this.#fullFault();
    if (fault === null) {
      this.#line.join(call);
      meter.waiting = this.#line.length;
      deadlines.set(call, this.#waitsUntilMs(call));
    }
    nudge(appId);
    return fault;
  }

  /**
   * Releases the call's slot or its position in the line. Call it once for each call that entered
   * and was not refused.
   */
  leave(call: AdmittedCall, nowMs: number): void {
    this.#parts.deadlines.clear(call);
    if (call.isInLine) {
      this.#line.leave(call);
      this.meter.waiting = this.#line.length;
      return;
    }
    const { slot } = call;
    assert(slot !== null, "a call that leaves has a slot");
    call.slot = null;
    this.meter.lastActiveAtMs = nowMs;
    this.#giveBack(slot, nowMs);
    // While calls wait, no other replica has capacity, so the first waiting call gets this slot
    // without a choice. With random-choice-2 the concurrency does not say whether a replica can
    // take a call, so the algorithm chooses.
    const takesFirst =
      slot.isOpen &&
      !slot.isUnreachable &&
      slot.running < slot.concurrency &&
      this.#algorithm !== "random-choice-2";
    if (this.#line.length > 0) this.#admitWaiting(takesFirst ? slot : undefined);
  }

  /**
   * Takes a call back from an unreachable replica, which has received nothing of the call. Puts the
   * call at the head of the line, from where the call goes to another replica. The unreachable
   * replica gets no calls for a moment, and then is tried again, unless it turns out to be dead.
   */
  move(call: AdmittedCall): void {
    const from = call.slot;
    assert(from !== null, "a call that moves has a slot");
    const { deadlines, monotonicMs, nudge } = this.#parts;
    const nowMs = monotonicMs();
    deadlines.clear(call);
    call.slot = null;
    this.#suspend(from, nowMs);
    this.#giveBack(from, nowMs);
    const untilMs = this.#waitsUntilMs(call);
    if (nowMs >= untilMs) {
      call.refuse(lineTimeout());
    } else {
      this.#line.joinFirst(call);
      this.meter.waiting = this.#line.length;
      deadlines.set(call, untilMs);
    }
    nudge(this.meter.appId);
    this.refresh();
  }

  /** The replica has refused the call, or may be about to end: it gets no calls for a moment. */
  pause({ slot }: AdmittedCall): void {
    if (slot !== null) this.#suspend(slot, this.#parts.monotonicMs());
  }

  /** Begins a pause in which the replica gets no calls; does not prolong a pause that goes on. */
  #suspend(slot: ReplicaSlot, nowMs: number): void {
    this.#setOpen(this.#open.filter((other) => other !== slot));
    if (slot.isUnreachable) return;
    slot.isUnreachable = true;
    this.#parts.deadlines.set(slot, nowMs + unreachablePauseMs);
  }

  /** Called when the pause of a replica is over: the replica may get calls again. */
  #tryAgain(): void {
    this.#updateSlots(this.#ready);
    this.refresh();
  }

  /** To be called when the app's replicas, or the results of their starts, may have changed. */
  refresh(): void {
    const { replicas } = this.#parts;
    const { appId } = this.meter;
    const ready = replicas.ready(appId);
    if (ready !== this.#ready) this.#updateSlots(ready);
    // The replicas are the same, but are to be grouped by the new shares.
    else if (replicas.shares(appId) !== this.#shares) this.#setOpen(this.#open);
    this.#admitWaiting();
    const fault = this.#startFault();
    if (fault !== null) this.refuseWaiting(fault);
  }

  /** Refuses all waiting calls with the fault. */
  refuseWaiting(fault: Fault): void {
    for (let call = this.#line.takeFirst(); call !== null; call = this.#line.takeFirst()) {
      this.#parts.deadlines.clear(call);
      this.meter.waiting = this.#line.length;
      call.refuse(fault);
    }
  }

  /**
   * Counts a call that the replica works on and that this proxy did not send. The returned function
   * must be called when that call is over.
   */
  hold(replicaId: ReplicaId): () => void {
    const { slots, monotonicMs } = this.#parts;
    const hold: Hold = { replicaId, slot: slots.get(replicaId) ?? null };
    this.#holds.add(hold);
    if (hold.slot !== null) hold.slot.running++;
    const nowMs = monotonicMs();
    this.meter.began(nowMs);
    this.meter.lastActiveAtMs = nowMs;
    return () => this.#endHold(hold);
  }

  /** How many calls of `hold` run on a replica that the view does not list yet. */
  heldOn(replicaId: ReplicaId): number {
    let count = 0;
    for (const hold of this.#holds) if (hold.slot === null && hold.replicaId === replicaId) count++;
    return count;
  }

  #endHold(hold: Hold): void {
    if (!this.#holds.delete(hold)) return;
    const { nudge, monotonicMs } = this.#parts;
    const nowMs = monotonicMs();
    this.meter.lastActiveAtMs = nowMs;
    if (hold.slot === null) {
      this.meter.ended(nowMs);
      nudge(this.meter.appId);
      return;
    }
    this.#giveBack(hold.slot, nowMs);
    this.#admitWaiting();
  }

  /** The counters of a release; undefined: it had no replica lately. */
  tallyOf(releaseId: ReleaseId): ReleaseTally | undefined {
    return this.#tallies.get(releaseId);
  }

  /** Gives the replica no more calls; calls that it already works on continue. */
  retire(slot: ReplicaSlot): void {
    slot.isRetired = true;
    slot.pool.close();
    this.#setOpen(this.#open.filter((other) => other !== slot));
    if (slot.running === 0) this.#forget(slot);
  }

  /** Closes all idle connections when the platform stops. */
  close(): void {
    for (const slot of this.#slots) slot.pool.close();
  }

  /** Sets which replicas take calls, and groups them by the shares that the view has now. */
  #setOpen(open: readonly ReplicaSlot[]): void {
    this.#open = open;
    this.#shares = this.#parts.replicas.shares(this.meter.appId);
    this.#shared = this.#shares === null ? null : dividedBetween(this.#shares, open);
  }

  /** The replica for the next call; undefined: none has capacity. */
  #findSlot(): ReplicaSlot | undefined {
    const open = this.#open;
    if (open.length === 0) return undefined;
    if (this.#shared !== null) return findShared(this.#shared, this.#algorithm, this.#parts.random);
    return open[choose(this.#algorithm, open, this.#cursor, this.#parts.random)];
  }

  #begin(call: AdmittedCall, slot: ReplicaSlot, nowMs: number): void {
    slot.running++;
    this.meter.began(nowMs);
    // Only random-choice-2 exceeds the concurrency of a replica. No call waits then, so only this
    // nudge tells the scheduler that the app may need one more replica.
    if (slot.running === slot.concurrency + 1) this.#parts.nudge(this.meter.appId);
    call.slot = slot;
    call.begunAtMs = nowMs;
    this.#parts.deadlines.set(call, nowMs + call.live.settings.responseGracePeriodSeconds * 1000);
    call.begin(slot, nowMs);
  }

  /** Gives free slots to waiting calls; the first of them gets `firstSlot`, if that is set. */
  #admitWaiting(firstSlot?: ReplicaSlot): void {
    let slot = firstSlot;
    while (this.#line.length > 0) {
      slot ??= this.#findSlot();
      if (slot === undefined) return;
      const call = this.#line.takeFirst();
      assert(call !== null, "a line with a length has a first");
      const nowMs = this.#parts.monotonicMs();
      this.meter.waiting = this.#line.length;
      this.meter.lastActiveAtMs = nowMs;
      call.lineMs = nowMs - call.arrivedAtMs;
      this.meter.times.lineWait.add(call.lineMs);
      this.#parts.deadlines.clear(call);
      this.#begin(call, slot, nowMs);
      slot = undefined;
    }
  }

  #giveBack(slot: ReplicaSlot, nowMs: number): void {
    assert(slot.running > 0, "a slot was given back twice");
    slot.running--;
    this.meter.ended(nowMs);
    if (slot.running > 0 || slot.isOpen) return;
    this.#forget(slot);
    // The scheduler stops the replica only when no call runs on it any more.
    this.#parts.nudge(this.meter.appId);
  }

  /**
   * Creates slots for new replicas, and removes the slots of replicas that are no longer listed.
   */
  #updateSlots(ready: readonly ReadyReplica[]): void {
    const existing = new Map([...this.#slots].map((slot) => [slot.replica, slot]));
    this.#ready = ready;
    const listed = ready.map((replica) => existing.get(replica) ?? this.#newSlot(replica));
    this.#setOpen(listed.filter((slot) => slot.isOpen && !slot.isUnreachable));
    const stillListed = new Set(listed);
    for (const slot of this.#slots) {
      if (!stillListed.has(slot)) this.#unlist(slot);
    }
  }

  #newSlot(replica: ReadyReplica): ReplicaSlot {
    const tally = getOrInsert(this.#tallies, replica.releaseId, () => new ReleaseTally());
    const pool = new ReplicaPool(replica.address, this.#parts);
    const slot = new ReplicaSlot({ replica, pool, tally, onAgain: () => this.#tryAgain() });
    // Calls of `hold` that began before the view listed the replica now count on its slot.
    for (const hold of this.#holds) {
      if (hold.slot !== null || hold.replicaId !== replica.replicaId) continue;
      hold.slot = slot;
      slot.running++;
    }
    this.#slots.add(slot);
    this.#parts.slots.set(replica.replicaId, slot);
    return slot;
  }

  #unlist(slot: ReplicaSlot): void {
    slot.isListed = false;
    slot.pool.close();
    if (slot.running === 0) this.#forget(slot);
  }

  /**
   * Removes the slot of a replica that works on no call. A retired slot stays while the view lists
   * its replica, which would otherwise get a new slot.
   */
  #forget(slot: ReplicaSlot): void {
    if (slot.isListed) return;
    const { replicaId } = slot.replica;
    this.#parts.deadlines.clear(slot);
    this.#slots.delete(slot);
    if (this.#parts.slots.get(replicaId) === slot) this.#parts.slots.delete(replicaId);
  }

  /** Until when the call may be in the line, by `Clock.monotonicMs`. */
  #waitsUntilMs({ arrivedAtMs, live }: AdmittedCall): number {
    const waitMs = this.#parts.limits.lineWaitMs ?? lineWaitMs(live);
    return arrivedAtMs + waitMs;
  }

  /**
   * Why no replica can start; null: a replica takes calls, or no reason against a start is known.
   */
  #startFault(): Fault | null {
    if (this.#open.length > 0) return null;
    const failure = this.#parts.replicas.failure(this.meter.appId);
    if (failure === undefined) return null;
    const code = faultCodes[failure.kind];
    if (failure.retryAtMs === null) return new Fault(code, failure.reason);
    const waitMs = failure.retryAtMs - this.#parts.monotonicMs();
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
    return new Fault(code, failure.reason, { retryAfterSeconds });
  }

  /** The fault for a call that finds the line full; null: the line has space. */
  #fullFault(): Fault | null {
    const { lineLengthMax } = this.#parts.limits;
    if (this.#line.length < lineLengthMax) return null;
    const message = `${lineLengthMax} calls of this app are already waiting for a replica, which is the limit (SLIPWAY_LINE_LENGTH). Try again after the seconds in Retry-After; to shorten the queue, raise maxReplicaCount or replicaConcurrency.`;
    return new Fault("line_full", message, { retryAfterSeconds: fullRetrySeconds });
  }
}

const faultCodes = {
  start_failed: "start_failed",
  // There is no code of its own for this; the reason says what is missing.
  no_capacity: "start_failed",
  outage: "unavailable",
  deleted: "not_found",
  budget_reached: "budget_reached",
  app_stopped: "app_stopped",
} as const satisfies Record<StartFailure["kind"], FaultCode>;

/**
 * How long a call may wait: by the app's settings long enough for a start, and long enough for the
 * preceding call to end.
 */
function lineWaitMs({ settings }: Live): number {
  return (
    Math.max(settings.deploymentInitializationTimeout, settings.responseGracePeriodSeconds) * 1000
  );
}
