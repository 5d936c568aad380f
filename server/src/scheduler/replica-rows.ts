// What the scheduler needs of the database: one row a replica, written before the replica exists and kept after its end, what
// it knows of apps beyond the end of its process, and the releases that replicas are made from. `replica-store.ts` keeps it in PostgreSQL, the simulation in memory.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Address, Artifact, Driver } from "#drivers/driver.ts";
import type { AppId, BuildId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { ReplicaState } from "./replica-state.ts";

/** What replicas are started from. Never changes. */
export type StoredRelease = {
  readonly releaseId: ReleaseId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly buildId: BuildId;
  readonly settings: AppSettings;
  readonly artifact: Artifact;
};

/** Where replicas run: only the instance with that driver can tell what became of them. */
export type Backend = Pick<Driver, "instanceId" | "name">;

/** The start of a replica, as usage is computed from it. Times in milliseconds since the epoch. */
export type NewReplicaRow = {
  readonly replicaId: ReplicaId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly buildId: BuildId;
  readonly backend: Backend;
  /** It is to prove a release before that takes calls. */
  readonly isTrial: boolean;
  readonly compute: string;
  readonly computeTier: AppSettings["computeTier"];
  readonly gpuCount: number;
  readonly cpuCores: number;
  readonly memoryGb: number;
  readonly provider: string | null;
  readonly region: string | null;
  /** How often the app had been restarted when it began. */
  readonly restarts: number;
  readonly createdAt: number;
};

/** What may happen to a row. `at` in milliseconds since the epoch. */
export type ReplicaChange =
  /** It runs; usage is counted from here. Of several only the first counts. */
  | { readonly kind: "started"; readonly at: number; readonly address: Address }
  | { readonly kind: "ready"; readonly at: number; readonly address: Address }
  | { readonly kind: "draining"; readonly at: number }
  | { readonly kind: "stopped"; readonly at: number; readonly reason: string; readonly exitCode: number | null };

/** A replica that has not stopped as far as the database knows. Times in milliseconds since the epoch. */
export type AliveRow = {
  readonly replicaId: ReplicaId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly buildId: BuildId;
  readonly state: Exclude<ReplicaState, "stopped">;
  readonly address: Address | null;
  readonly settings: AppSettings;
  /** Why the settings are only the defaults: those that are stored cannot be read. */
  readonly unreadable?: string;
  readonly gpus: number;
  readonly restarts: number;
  readonly isTrial: boolean;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly readyAt: number | null;
  readonly drainingAt: number | null;
  /** The latest moment that a row tells of at which it surely lived. */
  readonly lastKnownAt: number;
};

/** What is known of one app that scales or fails to start. Times in milliseconds since the epoch. */
export type StoredScaling = {
  readonly appId: AppId;
  /** As in `LoadHistory`; the last one holds still. */
  readonly recommendations: readonly { readonly until: number; readonly count: number }[];
  readonly starts: {
    readonly releaseId: ReleaseId;
    readonly failures: number;
    readonly failedAt: number;
    readonly retryAt: number;
    readonly reason: string;
    readonly isShown: boolean;
  } | null;
};

/** Rows of replicas and of apps, and releases. */
export interface ReplicaRows {
  /** Resolves when the row is durable. */
  insert(row: NewReplicaRow): Promise<void>;
  /** Writes the change if the row is in a state that it may follow; else nothing happens, so repeating does no harm. */
  change(replicaId: ReplicaId, change: ReplicaChange): Promise<void>;
  /** Notes when replicas were seen to run, which goes on by itself only in memory: one that vanishes has lived up to here. */
  seen(heartbeats: readonly { readonly replicaId: ReplicaId; readonly at: number }[]): Promise<void>;
  /** All rows of this backend that are not stopped, and those of nobody, which are its own from now on. */
  alive(backend: Backend): Promise<readonly AliveRow[]>;
  /** How many rows of other backends are not stopped. */
  countOthers(backend: Backend): Promise<number>;
  /** What is known of apps that scale or fail to start. */
  scaling(): Promise<readonly StoredScaling[]>;
  /** Writes some of it, and removes what is not known any more. */
  saveScaling(changed: readonly StoredScaling[], removed: readonly AppId[]): Promise<void>;
  /** Undefined when there is no such release. */
  release(releaseId: ReleaseId): Promise<StoredRelease | undefined>;
}
