// Contains the code that the drivers of this machine share, whether a replica is a process or a
// container: one start of a replica at a time, its claim, and its state by id.
import type { ReplicaId } from "#lib/ids.ts";
import type { DiskWatch } from "./disk/disk-watch.ts";
import { StartRefused, type Capabilities, type OwnedReplica } from "./driver.ts";
import type { ReplicaSpec } from "./driver.ts";
import { unlimitedRefusal } from "./egress.ts";
import { ExecRefused, replicaNotRunning, type ExecCommand, type RunningExec } from "./exec.ts";
import { Execs } from "./execs.ts";
import type { CardClaim } from "./pools/cards.ts";
import type { Placement } from "./pools/placement.ts";
import type { Pools } from "./pools/pools.ts";
import { Starts } from "./starts.ts";
import { collectStorage, storagePathRefusal } from "./storage.ts";
import type { DriverParts } from "./opened-driver.ts";

/** A replica that the driver runs, or that has exited and is not forgotten. */
export interface HeldReplica {
  readonly isEnded: boolean;
  /** Returns the replica's last known state, without a check. */
  owned(): OwnedReplica;
  /** Asks the replica to stop and kills it `graceMs` later; resolves when it is gone. */
  stop(graceMs: number): Promise<void>;
  /**
   * Resolves when all output of an exited replica is delivered; with false when the driver was
   * closed before.
   */
  deliver(): Promise<boolean>;
  /** Removes the files and records of an exited replica. */
  remove(): Promise<void>;
  /** Returns why the replica cannot be reached; see `Driver`. */
  whyUnreached(): Promise<string | null>;
}

export type ReplicaDriverOptions = Pick<DriverParts, "log" | "installationId"> & {
  /** The parent of the storage folders: each project has one, which its apps share. */
  readonly storageDir: string;
  /** True when sandboxes belong to an ordinary user; see `Sandbox`. */
  readonly isUserOwned?: boolean;
  /** Ends replicas that fill the disk. */
  readonly disk: DiskWatch;
  readonly placement: Placement;
};

/** The common part of the drivers. `driver.ts` documents the methods. */
export abstract class ReplicaDriver<Replica extends HeldReplica> {
  readonly installationId: string;
  abstract readonly capabilities: Capabilities;
  protected readonly placement: Placement;
  protected readonly replicas = new Map<ReplicaId, Replica>();
  protected readonly starts = new Starts();
  protected readonly execs = new Execs();
  readonly #options: ReplicaDriverOptions;

  constructor(options: ReplicaDriverOptions) {
    this.installationId = options.installationId;
    this.placement = options.placement;
    this.#options = options;
  }

  /**
   * Adds the replica to `replicas`, or rejects as `Driver.start` does. The caller releases the
   * claim unless the replica runs afterwards.
   */
  protected abstract startReplica(
    spec: ReplicaSpec,
    claim: CardClaim,
    signal: AbortSignal,
  ): Promise<void>;

  /** Starts a command in a replica that has not ended. Rejects as `Driver.exec` does. */
  protected abstract execIn(replica: Replica, command: ExecCommand): Promise<RunningExec>;

  protected get running(): Replica[] {
    return [...this.replicas.values()].filter((replica) => !replica.isEnded);
  }

  get pools(): Pools {
    return this.placement;
  }

  async start(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    const { replicaId } = spec;
    // For a replica that is being started, `run` returns the outcome of that start.
    if (this.replicas.has(replicaId) && !this.starts.has(replicaId)) return;
    await this.starts.run(spec, signal, async (startSignal) => {
      try {
        await this.startReplica(spec, this.#claimFor(spec), startSignal);
      } catch (error) {
        if (startSignal.aborted)
          throw new StartRefused("The start was cancelled.", { cause: error });
        throw error;
      } finally {
        const isRunning = this.replicas.get(replicaId)?.isEnded === false;
        if (!isRunning) this.placement.release(replicaId);
      }
    });
  }

  async stop(replicaId: ReplicaId, options: { readonly graceMs: number }): Promise<void> {
    await this.starts.cancel(replicaId);
    if (this.replicas.has(replicaId)) this.execs.end(replicaId);
    await this.replicas.get(replicaId)?.stop(options.graceMs);
    this.placement.release(replicaId);
  }

  async whyUnreached(replicaId: ReplicaId): Promise<string | null> {
    const replica = this.replicas.get(replicaId);
    return replica === undefined || replica.isEnded ? null : await replica.whyUnreached();
  }

  async exec(replicaId: ReplicaId, command: ExecCommand): Promise<RunningExec> {
    const replica = this.replicas.get(replicaId);
    if (replica === undefined || replica.isEnded || this.starts.has(replicaId))
      throw new ExecRefused(replicaNotRunning);
    return await this.execs.run(replicaId, () => this.execIn(replica, command));
  }

  list(): Promise<readonly OwnedReplica[]> {
    const established = [...this.replicas].filter(([replicaId]) => !this.starts.has(replicaId));
    return Promise.resolve(established.map(([, replica]) => replica.owned()));
  }

  async forget(replicaId: ReplicaId): Promise<void> {
    const replica = this.replicas.get(replicaId);
    if (replica === undefined || !replica.isEnded) return;
    const isDelivered = await replica.deliver();
    if (!isDelivered) return;
    await replica.remove();
    this.replicas.delete(replicaId);
    this.execs.forget(replicaId);
  }

  collectStorage(
    readGone: (storages: readonly string[]) => Promise<readonly string[]>,
    signal: AbortSignal,
  ): Promise<void> {
    return collectStorage(this.#options, readGone, signal);
  }

  #claimFor(spec: ReplicaSpec): CardClaim {
    const { disk } = this.#options;
    const refusal =
      unlimitedRefusal(this.capabilities.egress, spec) ??
      storagePathRefusal(this.capabilities, spec) ??
      disk.startRefusal(spec.projectId);
    if (refusal !== null) throw new StartRefused(refusal);
    const claim = this.placement.hold(spec.replicaId, spec);
    if (claim === null)
      throw new StartRefused(`There is no ${spec.compute} left.`, { kind: "no_capacity" });
    return claim;
  }
}
