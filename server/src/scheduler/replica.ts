// The scheduler's in-memory record of one replica, and the collection of these records. The state
// of a replica moves only by the table of `replica-state.ts`. Times are by `Clock.monotonicMs`,
// unless a comment says that they are since the epoch.
import { getOrInsert } from "#lib/get-or-insert.ts";
import type { Address, ErrorQuote } from "#drivers/driver.ts";
import { assert } from "#lib/assert.ts";
import type { AppId, ProjectId, ReplicaId } from "#lib/ids.ts";
import type { StoredRelease } from "./replica-rows.ts";
import { canMove, type EndOrder, type ReplicaState } from "./replica-state.ts";
import type { ReadyReplica } from "./replica-view.ts";

/** The release of a replica, as known before its artifact is read. */
export type ReplicaRelease = Omit<StoredRelease, "artifact">;

/**
 * How long before its forced end a replica is told that it must end, so that calls such as
 * WebSockets can end first.
 */
const noticeMs = 30_000;

/** How a replica ended. */
export type ReplicaEnd = {
  /** A sentence for the app's owner. */
  readonly reason: string;
  /**
   * What the reason quotes of the app's output, as the driver's `ReplicaEvent` reports it;
   * undefined: nothing.
   */
  readonly quote?: ErrorQuote | undefined;
  /** Null: it is not known. */
  readonly exitCode: number | null;
  /** In milliseconds since the epoch. */
  readonly at: number;
  /**
   * The backend lacked resources, or the replica was ended from outside. Its release is not to
   * blame.
   */
  readonly isExternal?: boolean | undefined;
  /** The driver refused to start it, and not because it lacked resources. */
  readonly isRefused?: boolean;
};

/** One replica. Only parts of the scheduler change it. */
export class Replica {
  readonly replicaId: ReplicaId;
  readonly release: ReplicaRelease;
  /** The settings in effect: those of the release, with live changes of the app's settings. */
  settings: ReplicaRelease["settings"];
  /** When its start began; corrected when the driver reports how long it has run. */
  beganAtMs: number;
  /**
   * How often the app had been restarted when this replica started. If the app's number is higher
   * now, the replica must be replaced.
   */
  readonly restarts: number;
  /** True for the trial of a release, which takes no calls yet. */
  isTrial: boolean;
  /** Aborts its start, its probes and its deadline. */
  readonly abort = new AbortController();
  /** False while the ready check of a ready replica fails; it gets no calls while this is false. */
  isRouted = true;
  /**
   * When it was last seen running, in milliseconds since the epoch. If nobody observes its end, its
   * usage counts until this time.
   */
  seenAtMs: number;
  /**
   * Resolves when the driver's `start` has answered. Null: it has answered, or an earlier platform
   * process called it.
   */
  creating: Promise<void> | null = null;
  /** True while it does not run yet, but waits for a machine or its image. */
  isPending = true;
  /** The maximum time from running to ready. */
  deadlineMs: number;
  /** How many GPUs it has. */
  readonly gpus: number;
  /** When it became ready; null: it has not been ready. */
  readyAtMs: number | null = null;
  /** The replica as the proxy sees it; null before it is ready. */
  ready: ReadyReplica | null = null;
  /** Why the platform ends it; null: it does not. */
  endOrder: EndOrder | null = null;
  /** When the grace period of running calls ends; set together with `endOrder`. */
  graceEndsAtMs = Number.POSITIVE_INFINITY;
  /** When the driver is to end it even if calls are still running. */
  terminateAtMs = Number.POSITIVE_INFINITY;
  /**
   * Whether the driver was asked to end it: `busy`: while calls ran; `idle`: after its last call,
   * when it gets less time.
   */
  terminating: "no" | "busy" | "idle" = "no";
  /** The driver's sentence about why it may never become ready; null: nothing is unusual. */
  hint: string | null = null;
  /** Why the last ready check failed, in a sentence; null: it has not been checked. */
  notReady: string | null = null;
  /**
   * The time until which it must not be ended, because it is a trial or waits for the promotion of
   * its release.
   */
  heldUntilMs = Number.NEGATIVE_INFINITY;
  /** Since when it serves only until its successors can; null: it does not leave. */
  leavingSinceMs: number | null = null;
  readonly #createdAtMs: number;
  #state: ReplicaState;

  constructor(facts: {
    replicaId: ReplicaId;
    release: ReplicaRelease;
    gpus: number;
    beganAtMs: number;
    /** The same time as `beganAtMs`, in milliseconds since the epoch. */
    createdAtMs: number;
    /** In milliseconds since the epoch. */
    seenAtMs: number;
    restarts: number;
    isTrial: boolean;
    state?: ReplicaState;
  }) {
    this.replicaId = facts.replicaId;
    this.seenAtMs = facts.seenAtMs;
    this.release = facts.release;
    this.settings = facts.release.settings;
    this.gpus = facts.gpus;
    this.deadlineMs = facts.release.settings.deploymentInitializationTimeout * 1000;
    this.beganAtMs = facts.beganAtMs;
    this.#createdAtMs = facts.createdAtMs;
    this.restarts = facts.restarts;
    this.isTrial = facts.isTrial;
    this.#state = facts.state ?? "starting";
  }

  /**
   * Converts a monotonic time to milliseconds since the epoch, for usage. Counts from the start of
   * the replica, and therefore does not depend on jumps of the clock.
   */
  timeAt(monotonicMs: number): number {
    return this.#createdAtMs + (monotonicMs - this.beganAtMs);
  }

  get appId(): AppId {
    return this.release.appId;
  }

  /** True while the driver's `start` has not answered. */
  get isCreating(): boolean {
    return this.creating !== null;
  }

  get state(): ReplicaState {
    return this.#state;
  }

  /** Orders its end. With `mayFinish`, running calls have the grace period to finish. */
  takeOrder(
    order: EndOrder,
    deadline: { readonly nowMs: number; readonly graceMs: number; readonly mayFinish: boolean },
  ): void {
    const { nowMs, graceMs, mayFinish } = deadline;
    this.endOrder = order;
    this.graceEndsAtMs = nowMs + graceMs;
    // In a short grace period, the notice takes no more than a quarter of the time.
    const noticeAtMs = this.graceEndsAtMs - Math.min(noticeMs, graceMs / 4);
    this.terminateAtMs = mayFinish ? noticeAtMs : nowMs;
  }

  /** Moves to another state. An assertion fails when the table does not allow that. */
  move(to: ReplicaState): void {
    assert(
      canMove(this.#state, to),
      `replica ${this.replicaId} cannot go from ${this.#state} to ${to}`,
    );
    this.#state = to;
  }

  /** Makes it ready at this address from now on. */
  becomeReady(address: Address, nowMs: number): void {
    this.move("ready");
    this.#setReady(address, nowMs);
  }

  /** Adopts a replica that became ready at `readyAtMs` under an earlier platform process. */
  adoptReady(address: Address, readyAtMs: number): void {
    assert(this.#state === "ready", `replica ${this.replicaId} is not ready`);
    this.#setReady(address, readyAtMs);
  }

  #setReady(address: Address, readyAtMs: number): void {
    const { appId, releaseId, settings } = this.release;
    this.readyAtMs = readyAtMs;
    this.ready = Object.freeze({
      replicaId: this.replicaId,
      appId,
      releaseId,
      address,
      concurrency: settings.replicaConcurrency,
    });
  }
}

/** All replicas that are not stopped. */
export class Fleet {
  readonly #byId = new Map<ReplicaId, Replica>();
  readonly #byApp = new Map<AppId, Set<Replica>>();
  readonly #byProject = new Map<ProjectId, Set<Replica>>();

  add(replica: Replica): void {
    assert(!this.#byId.has(replica.replicaId), `replica ${replica.replicaId} is known already`);
    this.#byId.set(replica.replicaId, replica);
    put(this.#byApp, replica.appId, replica);
    put(this.#byProject, replica.release.projectId, replica);
  }

  remove(replica: Replica): void {
    this.#byId.delete(replica.replicaId);
    take(this.#byApp, replica.appId, replica);
    take(this.#byProject, replica.release.projectId, replica);
  }

  get(replicaId: ReplicaId): Replica | undefined {
    return this.#byId.get(replicaId);
  }

  /** Replicas of an app in the order of their starts. */
  ofApp(appId: AppId): readonly Replica[] {
    const ofApp = this.#byApp.get(appId);
    return ofApp === undefined ? [] : [...ofApp];
  }

  /** Replicas of all apps of a project, unordered. */
  ofProject(projectId: ProjectId): Iterable<Replica> {
    return this.#byProject.get(projectId) ?? [];
  }

  /** Apps that have replicas. */
  apps(): readonly AppId[] {
    return [...this.#byApp.keys()];
  }

  all(): readonly Replica[] {
    return [...this.#byId.values()];
  }
}

function put<Key>(map: Map<Key, Set<Replica>>, key: Key, replica: Replica): void {
  getOrInsert(map, key, () => new Set()).add(replica);
}

function take<Key>(map: Map<Key, Set<Replica>>, key: Key, replica: Replica): void {
  const known = map.get(key);
  known?.delete(replica);
  if (known?.size === 0) map.delete(key);
}
