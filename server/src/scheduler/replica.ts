// The scheduler's in-memory record of one replica, and the collection of all. Its state moves only
// by the table of `replica-state.ts`. Times are `Clock.monotonicMs`.
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
 * Calls that are still running (a WebSocket may run forever) get this much notice before the end.
 */
const noticeMs = 30_000;

/** How a replica ended. */
export type ReplicaEnd = {
  readonly reason: string;
  /** As in `ReplicaEvent`. */
  readonly quote?: ErrorQuote | undefined;
  readonly exitCode: number | null;
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
  /**
   * The settings of the replica's release that are in effect: what can change live follows the
   * app's route.
   */
  settings: ReplicaRelease["settings"];
  /** Corrected when the driver reports how long it has run. */
  beganAtMs: number;
  /**
   * How often the app had been restarted when it started: a lower number than the current one means
   * that it needs a replacement.
   */
  readonly restarts: number;
  /** It is the trial of its release, which takes no calls yet. */
  isTrial: boolean;
  /** Aborts its start, its probes and its deadline. */
  readonly abort = new AbortController();
  /** True: it receives calls once it is ready; false while its ready check fails. */
  isRouted = true;
  /** When it certainly ran, since the epoch: usage counts up to here if its end was unobserved. */
  seenAtMs: number;
  /** Resolves when the driver's `start` has answered; null: it has, or another process began it. */
  creating: Promise<void> | null = null;
  /** It does not run yet: it waits for a machine or its image. */
  isPending = true;
  /** Maximum time from running to ready. */
  deadlineMs: number;
  readonly gpus: number;
  readyAtMs: number | null = null;
  /** The proxy's view of it; null before it is ready. */
  ready: ReadyReplica | null = null;
  /** Set when the platform ends it. */
  endOrder: EndOrder | null = null;
  /** When the grace period of running calls ends; set together with `endOrder`. */
  graceEndsAtMs = Number.POSITIVE_INFINITY;
  /** When the driver was, or will be, asked to end it even if calls are still running. */
  terminateAtMs = Number.POSITIVE_INFINITY;
  /**
   * The driver was asked to end it: while calls still ran, or after the last one, when it gets less
   * time.
   */
  terminating: "no" | "busy" | "idle" = "no";
  /**
   * The driver's sentence that explains why it may never take calls; null when nothing is unusual.
   */
  hint: string | null = null;
  /**
   * What its ready check found last, in a sentence, before it was ready; null: it has not been
   * checked.
   */
  notReady: string | null = null;
  /** Leave it alone until then: a trial, or one that waits for its promotion. */
  heldUntilMs = Number.NEGATIVE_INFINITY;
  /** It serves only until other releases can; null: its release is served. */
  leavingSinceMs: number | null = null;
  readonly #createdAtMs: number;
  #state: ReplicaState;

  constructor(facts: {
    replicaId: ReplicaId;
    release: ReplicaRelease;
    gpus: number;
    beganAtMs: number;
    /** `beganAtMs`, in milliseconds since the epoch. */
    createdAtMs: number;
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
   * The time since the epoch for usage: its start plus the monotonic time since then, independent
   * of clock steps.
   */
  timeAt(monotonicMs: number): number {
    return this.#createdAtMs + (monotonicMs - this.beganAtMs);
  }

  get appId(): AppId {
    return this.release.appId;
  }

  /** The driver's `start` has not answered yet. */
  get isCreating(): boolean {
    return this.creating !== null;
  }

  get state(): ReplicaState {
    return this.#state;
  }

  /** It is to end from `nowMs` on; `mayFinish`: its calls have the grace period to do so. */
  takeOrder(
    order: EndOrder,
    deadline: { readonly nowMs: number; readonly graceMs: number; readonly mayFinish: boolean },
  ): void {
    const { nowMs, graceMs, mayFinish } = deadline;
    this.endOrder = order;
    this.graceEndsAtMs = nowMs + graceMs;
    this.terminateAtMs = mayFinish ? nowMs + graceMs - Math.min(noticeMs, graceMs / 4) : nowMs;
  }

  /** Moves to a state; an assertion fails when the table does not allow it. */
  move(to: ReplicaState): void {
    assert(
      canMove(this.#state, to),
      `replica ${this.replicaId} cannot go from ${this.#state} to ${to}`,
    );
    this.#state = to;
  }

  /** Marks it ready at `address` from now on. */
  becomeReady(address: Address, nowMs: number): void {
    this.move("ready");
    this.#setReady(address, nowMs);
  }

  /** Adopts one that became ready at `readyAtMs` under an earlier process of the platform. */
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
