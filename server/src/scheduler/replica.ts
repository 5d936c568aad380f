// One replica as the scheduler holds it in memory, and all of them. Its state moves by the table of `replica-state.ts`
// only. Times are `Clock.monotonicMs`.
import type { Address } from "#drivers/driver.ts";
import { assert } from "#lib/assert.ts";
import type { AppId, ProjectId, ReplicaId } from "#lib/ids.ts";
import type { StoredRelease } from "./replica-rows.ts";
import { canMove, type ReplicaState } from "./replica-state.ts";
import type { ReadyReplica } from "./replica-view.ts";

/** What a replica is made from, as far as it is known before its artifact was read. */
export type ReplicaRelease = Omit<StoredRelease, "artifact">;

/**
 * Why the platform ends a replica. `timeout`: it took too long to become ready, which counts as a failed start. `stuck`: it
 * works on something that nobody wants any more, so it gets no time to finish that.
 */
export type EndOrder = { readonly reason: string; readonly kind: "wanted" | "timeout" | "unhealthy" | "stuck" };

/** How a replica came to its end. */
export type ReplicaEnd = {
  readonly reason: string;
  readonly exitCode: number | null;
  readonly at: number;
  /** It was refused because there was no room for it. */
  readonly hasNoRoom?: boolean;
};

/** One replica. Only the scheduler's own parts change it. */
export class Replica {
  readonly replicaId: ReplicaId;
  readonly release: ReplicaRelease;
  /** May be put right when the driver says for how long it has run. */
  beganAtMs: number;
  /** How often the app had been restarted when it began: with fewer than now it is to be replaced. */
  readonly restarts: number;
  /** It is to prove its release, which takes no calls yet. */
  isTrial: boolean;
  /** Ends its start, its probes and its deadline. */
  readonly abort = new AbortController();
  /** Calls are sent to it once it is ready; false while its ready check fails. */
  isRouted = true;
  /** When it surely ran, since the epoch: what it is counted up to when nobody saw it end. */
  seenAtMs: number;
  /** The driver's `start` has not answered yet. */
  isCreating = false;
  /** It does not run yet: it waits for a machine with room, or its image. */
  isPending = true;
  /** How long it may take from when it runs until it is ready. */
  deadlineMs: number;
  readonly gpus: number;
  readyAtMs: number | null = null;
  /** What the proxy gets to see; null before it is ready. */
  ready: ReadyReplica | null = null;
  /** Set when the platform wants it gone. */
  endOrder: EndOrder | null = null;
  /** When running calls have had their time; set together with `endOrder`. */
  graceEndsAtMs = Number.POSITIVE_INFINITY;
  /** When the driver was, or will be, asked to end it even if calls still run. */
  terminateAtMs = Number.POSITIVE_INFINITY;
  isTerminating = false;
  /** A sentence of the driver that explains why it may never take calls; null when nothing is odd. */
  hint: string | null = null;
  /** It is not to be touched before: a trial, or one that waits for its promotion. */
  heldUntilMs = Number.NEGATIVE_INFINITY;
  readonly #createdAtMs: number;
  #state: ReplicaState;

  constructor(given: {
    replicaId: ReplicaId;
    release: ReplicaRelease;
    gpus: number;
    beganAtMs: number;
    /** `beganAtMs`, since the epoch. */
    createdAtMs: number;
    seenAtMs: number;
    restarts: number;
    isTrial: boolean;
    state?: ReplicaState;
  }) {
    this.replicaId = given.replicaId;
    this.seenAtMs = given.seenAtMs;
    this.release = given.release;
    this.gpus = given.gpus;
    this.deadlineMs = given.release.settings.deploymentInitializationTimeout * 1000;
    this.beganAtMs = given.beganAtMs;
    this.#createdAtMs = given.createdAtMs;
    this.restarts = given.restarts;
    this.isTrial = given.isTrial;
    this.#state = given.state ?? "starting";
  }

  /**
   * Now, since the epoch, as usage counts it: its first moment and the monotonic time since then, whatever the clock did.
   */
  timeAt(monotonicMs: number): number {
    return this.#createdAtMs + (monotonicMs - this.beganAtMs);
  }

  get appId(): AppId {
    return this.release.appId;
  }

  get state(): ReplicaState {
    return this.#state;
  }

  /** Moves on; an assertion fails when the table does not allow it. */
  move(to: ReplicaState): void {
    assert(canMove(this.#state, to), `replica ${this.replicaId} cannot go from ${this.#state} to ${to}`);
    this.#state = to;
  }

  /** Makes it ready at `address` from now on. */
  becomeReady(address: Address, nowMs: number): void {
    this.move("ready");
    this.#setReady(address, nowMs);
  }

  /** Takes over one that an earlier process of the platform had made ready at `readyAtMs`. */
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

  /** Replicas of an app in the order in which they were started. */
  ofApp(appId: AppId): readonly Replica[] {
    const ofApp = this.#byApp.get(appId);
    return ofApp === undefined ? [] : [...ofApp];
  }

  /** Replicas of all apps of a project, in no order. */
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
  const known = map.get(key);
  if (known === undefined) map.set(key, new Set([replica]));
  else known.add(replica);
}

function take<Key>(map: Map<Key, Set<Replica>>, key: Key, replica: Replica): void {
  const known = map.get(key);
  known?.delete(replica);
  if (known?.size === 0) map.delete(key);
}
