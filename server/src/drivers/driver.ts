// The contract between the platform and what runs replicas (processes, containers, pods). A driver
// has no database and makes no decisions: it starts, stops, lists, measures and reports. Each
// driver passes `test/support/driver-conformance.ts`.
import type { LogLevel } from "@slipway/contract/app-choices.ts";
import type { AppId, AppKey, BuildId, ReleaseId, ReplicaId, RunId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { ContainerRuntime, ContainerRuntimes } from "./container-runtimes.ts";
import type { Egress } from "./egress.ts";
import type { ExecCommand, RunningExec } from "./exec.ts";
import type { GpuUse, PoolRequest } from "./pools/pool.ts";
import type { Pools } from "./pools/pools.ts";

/**
 * Where a replica accepts calls: a TCP port, or a Unix socket of this machine. Has the form that
 * `net.connect` takes.
 */
export type Address =
  | {
      readonly host: string;
      readonly port: number;
      /**
       * Says whether the replica is the listener; called for each new connection. Absent: no other
       * program can listen on the port.
       */
      readonly isOwn?: () => boolean;
    }
  | { readonly path: string };

/**
 * The output of a build and the input of `start`. `kind` is the name of the driver that built the
 * artifact; that driver defines the other fields. Stored as JSON with the release.
 */
export type Artifact = {
  readonly kind: string;
  readonly [key: string]: string | number | boolean | null;
};

/** What one replica gets from a machine. GB of 10^9 bytes. */
export type Resources = Pick<PoolRequest, "compute" | "gpuCount" | "cpuCores" | "memoryGb">;

/** What to run. `environment` includes the app's secrets and must not reach a log or an error. */
export type ReplicaSpec = Resources &
  AppKey & {
    readonly replicaId: ReplicaId;
    readonly appName: string;
    readonly buildId: BuildId;
    readonly releaseId: ReleaseId;
    readonly artifact: Artifact;
    readonly runtime: "cortex" | "custom";
    readonly containerRuntime: ContainerRuntime;
    /** Arguments of the start command; empty for cortex. */
    readonly entrypoint: readonly string[];
    /** The port from the settings; a driver without separate networks may choose another one. */
    readonly port: number;
    readonly environment: Readonly<Record<string, string | Secret>>;
    /** `interruptible`: may run on machines that can disappear at any time. */
    readonly tier: string;
    /** Where the app wants to run (see `pools/`); null: anywhere. */
    readonly region: string | null;
    readonly provider: string | null;
    /** Names the storage mounted at `/persistent-storage`; replicas with the same name share it. */
    readonly storage: string;
    /** Where the app's own storage is mounted; null: it has none. */
    readonly storagePath: string | null;
    /** The maximum number of calls that the platform sends at once. */
    readonly concurrency: number;
    /** How long running calls may take after the replica is asked to stop. */
    readonly graceSeconds: number;
    /** The ranges (CIDR) to which the app is limited; null: it reaches all that apps may reach. */
    readonly egressCidrs: readonly string[] | null;
    /** Whether paths of calls keep the prefix `/v4/{projectId}/{appName}`. */
    readonly keepsPathPrefix: boolean;
    /** The level of the runtime's own lines in the app's log. */
    readonly logLevel: LogLevel;
  };

/**
 * An event of a replica. Times are milliseconds since the epoch. Each replica has at most one
 * `started`, then exactly one `exited`.
 */
export type ReplicaEvent =
  /** The replica is running and billed, and can be probed for readiness at `address`. */
  | {
      readonly kind: "started";
      readonly replicaId: ReplicaId;
      readonly at: number;
      readonly address: Address;
      /**
       * A sentence for the app's owner: why the replica may never accept calls there; null when
       * nothing is unusual.
       */
      readonly hint: string | null;
    }
  /**
   * The replica is gone. The event is sent at once, before the rest of its lines. `reason` is a
   * sentence for the app's owner.
   */
  | {
      readonly kind: "exited";
      readonly replicaId: ReplicaId;
      /** Null when it exited unobserved and the time is unknown. */
      readonly at: number | null;
      readonly exitCode: number | null;
      readonly signal: string | null;
      readonly reason: string;
      /** Undefined: the reason quotes nothing. */
      readonly quote?: ErrorQuote | undefined;
      /** True when the engine, or somebody with access to it, ended the replica. */
      readonly isExternal?: boolean | undefined;
    };

/**
 * The line of the replica's error output that a reason quotes. It may be older than the cause of
 * the exit.
 */
export type ErrorQuote = Pick<ReplicaLine, "at" | "runId"> & {
  /** The reason without the line. */
  readonly reasonWithout: string;
};

/** One line of an app's output, without its newline. */
export type ReplicaLine = {
  readonly replicaId: ReplicaId;
  /** The time of the line, in milliseconds since the epoch. */
  readonly at: number;
  readonly stream: "stdout" | "stderr";
  /** The call that the line belongs to, if known. */
  readonly runId: RunId | null;
  readonly text: string;
};

/**
 * Receives events and lines. `event` must return at once; `lines` resolves when they are stored,
 * and a driver waits for that before it reads more.
 */
export interface ReplicaSink {
  event(event: ReplicaEvent): void;
  lines(lines: readonly ReplicaLine[]): Promise<void>;
}

/**
 * A replica on the driver's backend, found by `list`; an earlier process of the platform may have
 * started it.
 */
export type OwnedReplica = {
  readonly replicaId: ReplicaId;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  /** `pending`: accepted and waiting for a machine or its image, so `started` is still to come. */
  readonly state: "pending" | "running" | "exited";
  /**
   * Listed as running, but not checked since the driver was opened: it may have exited unobserved.
   */
  readonly isUnseen?: true;
  /** How long the replica has run, whatever the machine's clock did meanwhile; absent: unknown. */
  readonly ranMs?: number;
  /** Null when the replica is pending, or exited before it ran. */
  readonly address: Address | null;
  /** In the state `exited`: why the replica exited. */
  readonly reason: string | null;
};

/** What a driver supports, so that the platform can say clearly what is unavailable here. */
export type Capabilities = {
  readonly dockerfile: boolean;
  readonly baseImage: boolean;
  readonly aptPackages: boolean;
  readonly condaPackages: boolean;
  readonly memoryLimit: boolean;
  readonly cpuLimit: boolean;
  readonly egress: Egress;
  /** Whether apps can have storage of their own, which needs a view of files for each replica. */
  readonly storagePaths: boolean;
  /**
   * The runtimes that the field containerRuntime chooses from; null: replicas have one kind of
   * sandbox, and the field has no effect.
   */
  readonly containerRuntimes: ContainerRuntimes | null;
};

/**
 * A time in which the backend does not answer and starts nothing. `sinceMs` is of
 * `Clock.monotonicMs`; `reason` is a sentence for the app's owner.
 */
export type Outage = { readonly sinceMs: number; readonly reason: string };

/** A replica's use of its machine. */
export type ReplicaUsage = {
  /**
   * Processor time since the start. May decrease: the time of an exited process can be missing,
   * briefly or permanently.
   */
  readonly cpuSeconds: number;
  /** Current memory, without what the system could reclaim. */
  readonly memoryBytes: number;
  /** Traffic since the replica's start; absent if the replica shares its network with others. */
  readonly network?: { readonly receivedBytes: number; readonly sentBytes: number } | undefined;
  /** The use of the replica's GPUs; absent when it has none, or they could not be measured. */
  readonly gpu?: GpuUse | undefined;
};

/** What became of the making of a zygote. */
export type ZygoteReport =
  | { readonly kind: "ready" }
  /**
   * The app cannot be forked after its import: it has threads, for example. `reasons`: sentences
   * for the app's owner, which name what was found and how to change it.
   */
  | { readonly kind: "refused"; readonly reasons: readonly string[] }
  /** It could not be made, or ended during the import; `reason`: the end of a sentence. */
  | { readonly kind: "failed"; readonly reason: string };

/** A zygote that waits for starts. */
export type ZygoteState = {
  readonly id: ReplicaId;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  /** What it holds by itself, with the memory that its replicas share; null: unknown. */
  readonly memoryBytes: number | null;
  /** When it was made or last used, in `Clock.monotonicMs`. */
  readonly usedAtMs: number;
};

/**
 * The zygotes of a driver. `Driver.start` uses one by itself where it can, and otherwise starts the
 * replica as always. They end with the platform; replicas that were forked go on.
 */
export interface Zygotes {
  /** Why this machine can have none, as the end of a sentence; null: it can. */
  readonly unavailable: string | null;
  /** Whether a start of `spec` would use a zygote. */
  has(spec: ReplicaSpec): boolean;
  /**
   * Makes a zygote, which gets the id `spec.replicaId`, for replicas that differ from `spec` in
   * their id only. Resolves when it is ready or will never be; then, and after an abort, nothing
   * of it is left.
   */
  prepare(spec: ReplicaSpec, signal: AbortSignal): Promise<ZygoteReport>;
  /** The zygotes that are ready. */
  list(): readonly ZygoteState[];
  /** Ends a zygote; its replicas go on. Ignores unknown ids. */
  end(id: ReplicaId): void;
}

/** Runs replicas on one kind of backend. All methods are idempotent per id. */
export interface Driver {
  /** The name in the table of drivers, which is also shown to people. */
  readonly name: string;
  /**
   * The installation that the driver works for. Everything it starts carries this label
   * permanently.
   */
  readonly installationId: string;
  /**
   * True: whoever reaches the backend finds all replicas of the installation there. False: only a
   * platform with the same data folder on the same machine does.
   */
  readonly isShared: boolean;
  readonly capabilities: Capabilities;
  /**
   * Starts watching, including replicas of an earlier process. Once it has resolved, `list` is
   * accurate, and lines of adopted replicas flow. The driver emits no events for the states that
   * `list` then returns; a replica that exited unobserved is listed as running until `exited` is
   * emitted.
   */
  open(sink: ReplicaSink): Promise<void>;
  /** Null: the driver starts every replica with an import of its own. */
  readonly zygotes: Zygotes | null;
  /** The pools that replicas run in, and the claims of replicas in them. */
  readonly pools: Pools;
  /** Null: the backend answers, as far as the driver knows. Returns at once. */
  outage(): Outage | null;
  /**
   * Resolves when the machine, engine or cluster has accepted the replica, which may then stay
   * pending for long; `started` reports when it runs. Rejects with `StartRefused` when the replica
   * is not accepted, and also when the start is aborted or the replica is stopped meanwhile; then
   * nothing is left behind, and no `exited` follows. Does nothing for an id that already exists.
   */
  start(spec: ReplicaSpec, signal: AbortSignal): Promise<void>;
  /**
   * Asks the replica to stop and kills it after `graceMs`; resolves when it is gone. Resolves at
   * once for an unknown id.
   */
  stop(replicaId: ReplicaId, options: { readonly graceMs: number }): Promise<void>;
  /**
   * Returns a sentence for the app's owner that says where a running replica listens instead of at
   * its address; null when nothing is known.
   */
  whyUnreached(replicaId: ReplicaId): Promise<string | null>;
  /**
   * Runs a command in a running replica, as the app itself runs there: see `RunningExec`. The
   * command does not keep the replica alive: `stop` and `close` kill the command first. If the
   * platform is killed, the next `open` ends the command. Rejects with `ExecRefused`.
   */
  exec(replicaId: ReplicaId, command: ExecCommand): Promise<RunningExec>;
  /**
   * Lists all replicas of the installation, and none of another installation that shares the
   * backend.
   */
  list(): Promise<readonly OwnedReplica[]>;
  /** Measures running replicas; omits replicas that cannot be measured. */
  usage(): Promise<ReadonlyMap<ReplicaId, ReplicaUsage>>;
  /**
   * Delivers the remaining lines of an exited replica and removes its record and files; keeps both
   * when the driver is closed meanwhile. Ignores running replicas and unknown ids.
   */
  forget(replicaId: ReplicaId): Promise<void>;
  /**
   * Calls `readGone` with the names of all projects' storages (see `ReplicaSpec`) and the ids of
   * all apps that have storage of their own. Removes the storages that `readGone` returns. After an
   * abort, the next call does the rest.
   */
  collectStorage(
    readGone: (storages: readonly string[]) => Promise<readonly string[]>,
    signal: AbortSignal,
  ): Promise<void>;
  /** Stops watching. Replicas keep running. */
  close(): Promise<void>;
}

/**
 * Why a start was refused. `no_capacity`: the backend cannot take the replica now, but may later.
 * `refused`: anything else.
 */
export type RefusalKind = "no_capacity" | "refused";

/** Why a replica could not be started, in a sentence for the app's owner. */
export class StartRefused extends Error {
  override readonly name = "StartRefused";
  readonly kind: RefusalKind;

  constructor(
    message: string,
    options: { readonly kind?: RefusalKind; readonly cause?: unknown } = {},
  ) {
    super(message, options);
    this.kind = options.kind ?? "refused";
  }
}
