// The contract between the platform and what runs replicas (processes, containers, pods). A driver knows no database and
// takes no decisions: it starts, stops, lists, measures and reports. Each driver passes `test/support/driver-conformance.ts`.
import type { AppId, BuildId, ProjectId, ReleaseId, ReplicaId, RunId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";

/** Where a replica takes calls: at a TCP port, or at a Unix socket of this machine. Has the form that `net.connect` takes. */
export type Address =
  | {
      readonly host: string;
      readonly port: number;
      /** Asked of each new connection, where another program could listen at the port: is it the replica that does? */
      readonly isOwn?: () => boolean;
    }
  | { readonly path: string };

/** What a build left behind and `start` needs; the driver that built it gives it its form. Stored as JSON with the release. */
export type Artifact = { readonly kind: string; readonly [key: string]: string | number | boolean | null };

/** What one replica gets of a machine. */
export type Resources = {
  readonly compute: string;
  readonly gpuCount: number;
  readonly cpuCores: number;
  /** GB of 10^9 bytes. */
  readonly memoryGb: number;
};

/** What to run. `environment` holds the app's secrets too; it must not reach a log or an error. */
export type ReplicaSpec = Resources & {
  readonly replicaId: ReplicaId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly appName: string;
  readonly buildId: BuildId;
  readonly releaseId: ReleaseId;
  readonly artifact: Artifact;
  readonly runtime: "cortex" | "custom";
  /** Arguments of the start command; empty for cortex. */
  readonly entrypoint: readonly string[];
  /** The port that the settings name; a driver without separate networks may choose another one. */
  readonly port: number;
  readonly environment: Readonly<Record<string, string | Secret>>;
  /** `interruptible`: it may be placed on machines that can go away at any time. */
  readonly tier: string;
  /** Where the app wants to run; null: anywhere. */
  readonly region: string | null;
  readonly provider: string | null;
  /** Names the storage that is mounted at `/persistent-storage`; replicas with the same name share it. */
  readonly storage: string;
  /** The most calls that the platform sends at once. */
  readonly concurrency: number;
  /** How long running calls may take after the replica was asked to end. */
  readonly graceSeconds: number;
};

/**
 * What happens to a replica. Times are milliseconds since the epoch. Per replica: at most one `started`, then exactly one
 * `exited`.
 */
export type ReplicaEvent =
  /** It runs from now on, is paid for, and may be asked at `address` whether it is ready. */
  | {
      readonly kind: "started";
      readonly replicaId: ReplicaId;
      readonly at: number;
      readonly address: Address;
      /** A sentence for the app's owner that explains why it may never take calls there; null when nothing is odd. */
      readonly hint: string | null;
    }
  /** It is gone, and no more of its log lines follow. `reason` is a sentence for the app's owner. */
  | {
      readonly kind: "exited";
      readonly replicaId: ReplicaId;
      /** Null: while nobody watched, and nothing tells when. */
      readonly at: number | null;
      readonly exitCode: number | null;
      readonly signal: string | null;
      readonly reason: string;
    };

/** One line of an app's output, without its newline. */
export type ReplicaLine = {
  readonly replicaId: ReplicaId;
  readonly at: number;
  readonly stream: "stdout" | "stderr";
  /** The call that the line belongs to, where known. */
  readonly runId: RunId | null;
  readonly text: string;
};

/** Whoever is told. Events must return at once; `lines` resolves when they are stored, and a driver waits for that before it reads on. */
export interface ReplicaSink {
  event(event: ReplicaEvent): void;
  lines(lines: readonly ReplicaLine[]): Promise<void>;
}

/** A replica on the driver's backend, found by `list`; it may have been started by an earlier process of the platform. */
export type OwnedReplica = {
  readonly replicaId: ReplicaId;
  /** The instance that started it: those of others on the same backend are not to be touched. */
  readonly instanceId: string;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  /** `pending`: it was accepted and waits for a machine or its image, so `started` is still to come. */
  readonly state: "pending" | "running" | "exited";
  /** Running as far as is known, but not seen to since the driver was opened: it may have ended while nobody watched. */
  readonly isUnseen?: true;
  /** For how long its process has run, where that is known whatever the clock did. */
  readonly ranMs?: number;
  /** Null when it is pending, or has ended before it ran. */
  readonly address: Address | null;
  /** Why it is gone, for `exited`. */
  readonly reason: string | null;
};

/** What a driver can do, so that the platform can say clearly what is not to be had here. */
export type Capabilities = {
  readonly dockerfile: boolean;
  readonly baseImage: boolean;
  readonly aptPackages: boolean;
  readonly condaPackages: boolean;
  readonly memoryLimit: boolean;
  readonly cpuLimit: boolean;
  /** Apps cannot read the platform's or each other's files. */
  readonly fileIsolation: boolean;
  /** Apps cannot reach each other's replicas but through the proxy. */
  readonly networkIsolation: boolean;
  /** Each line reaches the platform, also those that are printed while it is away. False: the last ones may be lost with the replica. */
  readonly keepsLines: boolean;
  /** Compute types that replicas can get here, for example `["CPU"]`. */
  readonly compute: readonly string[];
};

/** Whether there is room for a replica: now, later when others end, or never. */
export type Capacity = "now" | "later" | "never";

/** What a replica uses of its machine. */
export type ReplicaUsage = {
  /** Processor time since it started. May go down: that of a process that ended can be missing, for a moment or for good. */
  readonly cpuSeconds: number;
  /** Now, without what the system could take back. */
  readonly memoryBytes: number;
};

/** Runs replicas on one kind of ground. All methods may be called again with the same id without harm. */
export interface Driver {
  readonly name: "process" | "docker" | "kubernetes" | "fake";
  /** The platform on its data folder that the driver works for. What it starts carries this label, for good. */
  readonly instanceId: string;
  readonly capabilities: Capabilities;
  /**
   * Begins to watch, also what an earlier process started: `list` is true after it, and lines of adopted replicas flow.
   * What `list` says then is not told again as an event; a replica that ended unseen is listed as running until its
   * lines are handed over and `exited` is told.
   */
  open(sink: ReplicaSink): Promise<void>;
  /** From what the driver knows already: it is asked often and must return at once. */
  capacity(resources: Resources): Capacity;
  /**
   * Resolves when the machine, engine or cluster has accepted the replica, which may then be pending for long; `started` tells
   * when it runs. Rejects with `StartRefused` and leaves nothing behind, also when it is aborted or stopped meanwhile; no
   * `exited` is told then. An id that exists already is left as it is.
   */
  start(spec: ReplicaSpec, signal: AbortSignal): Promise<void>;
  /** Asks it to end, ends it by force after `graceMs`; resolves when it is gone. An unknown id resolves at once. */
  stop(replicaId: ReplicaId, options: { readonly graceMs: number }): Promise<void>;
  /** All that there is on the backend, also of other instances where they share it: each says whose it is. */
  list(): Promise<readonly OwnedReplica[]>;
  /** Of replicas that run; one that cannot be measured is left out. */
  usage(): Promise<ReadonlyMap<ReplicaId, ReplicaUsage>>;
  /** Drops what is left of an exited replica: its record and files. One that runs is left alone; an unknown id is fine. */
  forget(replicaId: ReplicaId): Promise<void>;
  /** Stops watching. Replicas go on running. */
  close(): Promise<void>;
}

/** `no_capacity`: no room at this moment. `image`: what it runs cannot be had. `refused`: anything else. */
export type RefusalKind = "no_capacity" | "image" | "refused";

/** Why a replica could not be started, in a sentence for the app's owner. */
export class StartRefused extends Error {
  override readonly name = "StartRefused";
  readonly kind: RefusalKind;

  constructor(message: string, options: { readonly kind?: RefusalKind; readonly cause?: unknown } = {}) {
    super(message, options);
    this.kind = options.kind ?? "refused";
  }
}
