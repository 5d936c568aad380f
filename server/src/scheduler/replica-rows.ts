// The scheduler's database interface: one row per replica, written before the replica exists and
// kept after it ends; the state of apps that survives the process; and the releases of replicas.
// `replica-store.ts` implements it in PostgreSQL, the simulation in memory.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { CandidateRelease } from "#deploy/trial.ts";
import type { Address, Driver, Resources } from "#drivers/driver.ts";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Tables } from "#store/tables.ts";
import type { EndOrder, ReplicaState } from "./replica-state.ts";

/** The immutable input for starting replicas. */
export type StoredRelease = CandidateRelease;

/** The platform that looks after a replica, and the driver that runs it. */
export type Keeper = Pick<Foundation, "instanceId"> & Pick<Driver, "name">;

/** A platform and its driver, which knows the state of the replicas. */
export type Backend = Keeper & Pick<Driver, "installationId" | "isShared">;

/** The start of a replica, as the basis of usage. Times in milliseconds since the epoch. */
export type NewReplicaRow = Resources &
  Omit<StoredRelease, "settings" | "artifact"> & {
    readonly replicaId: ReplicaId;
    readonly backend: Keeper;
    /** True when the replica is the trial of a release that takes no calls yet. */
    readonly isTrial: boolean;
    readonly computeTier: AppSettings["computeTier"];
    /**
     * The provider and the region of the pool, or what the app requested if the pool names none;
     * null: the app did not request one either.
     */
    readonly provider: string | null;
    readonly region: string | null;
    /** How often the app had been restarted when the replica started. */
    readonly restarts: number;
    readonly createdAt: number;
  };

/** A change of a row. `at` in milliseconds since the epoch. */
export type ReplicaChange =
  /** The replica runs, and its usage starts. Only the first such change counts. */
  | { readonly kind: "started"; readonly at: number; readonly address: Address }
  | { readonly kind: "ready"; readonly at: number; readonly address: Address }
  | {
      readonly kind: "draining";
      readonly at: number;
      readonly order: EndOrder;
      readonly graceEndsAt: number;
    }
  | {
      readonly kind: "stopped";
      readonly at: number;
      readonly reason: string;
      /** Null: it is not known. */
      readonly exitCode: number | null;
    };

/** When a replica was last seen running, in milliseconds since the epoch. */
export type Heartbeat = { readonly replicaId: ReplicaId; readonly at: number };

/**
 * A replica that has not stopped according to the database. Times in milliseconds since the epoch.
 */
export type AliveRow = Pick<
  NewReplicaRow,
  | "replicaId"
  | "projectId"
  | "appId"
  | "releaseId"
  | "buildId"
  | "restarts"
  | "isTrial"
  | "createdAt"
> & {
  readonly state: Exclude<ReplicaState, "stopped">;
  /** Null: the driver has not told it yet. */
  readonly address: Address | null;
  readonly settings: AppSettings;
  /** Why the settings are only defaults: the stored ones cannot be read. */
  readonly unreadable?: string;
  readonly gpus: number;
  readonly startedAt: number | null;
  readonly readyAt: number | null;
  readonly drainingAt: number | null;
  /**
   * Why and how a draining replica ends; null: it was stored by a version that did not keep this.
   */
  readonly endOrder: EndOrder | null;
  readonly graceEndsAt: number | null;
  /** The latest moment at which the replica certainly ran, according to the row. */
  readonly lastKnownAt: number;
};

/**
 * The stored state of one app that scales or fails to start. Each of `counts` was the
 * recommendation until its time in `held_until`; the last one still is. The other columns describe
 * the failed starts, and are null when starting works.
 */
export type StoredScaling = Readonly<Tables["app_scaling"]>;

/** Access to rows of replicas and apps, and to releases. */
export interface ReplicaRows {
  /** Resolves when the row is durable. */
  insert(row: NewReplicaRow): Promise<void>;
  /**
   * Writes the change if the row's state allows it; otherwise does nothing, so repeating is
   * harmless.
   */
  change(replicaId: ReplicaId, change: ReplicaChange): Promise<void>;
  /**
   * Records when replicas were last seen running. If a replica disappears, its usage counts up to
   * this time.
   */
  seen(heartbeats: readonly Heartbeat[]): Promise<void>;
  /**
   * Takes over the rows that no platform looks after, then returns all unstopped rows of this
   * backend. One platform runs at a time, so on a shared backend these are all rows of the
   * installation.
   */
  alive(backend: Backend): Promise<readonly AliveRow[]>;
  /** How many unstopped rows other platforms or drivers have. */
  countOthers(backend: Backend): Promise<number>;
  /** The stored state of apps that scale or fail to start. */
  scaling(): Promise<readonly StoredScaling[]>;
  /** Writes changed states and removes outdated ones. */
  saveScaling(changed: readonly StoredScaling[], removed: readonly AppId[]): Promise<void>;
  /** Reads a release; undefined when it does not exist. */
  release(releaseId: ReleaseId): Promise<StoredRelease | undefined>;
}
