// The contract between the platform and what runs replicas (processes, containers, pods). A driver knows no
// database and takes no decisions: it starts, stops, lists and tells. Each driver passes `conformance.ts`.
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

/** What to run. `environment` holds the app's secrets too; it must not reach a log or an error. */
export type ReplicaSpec = {
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
  readonly compute: string;
  readonly gpuCount: number;
  readonly cpuCores: number;
  /** GB of 10^9 bytes. */
  readonly memoryGb: number;
  /** The most calls that the platform sends at once. */
  readonly concurrency: number;
  /** How long running calls may take after the replica was asked to end. */
  readonly graceSeconds: number;
};

/** What happens to a replica. Times are milliseconds since the epoch. Per replica: at most one `started`, then at most one `ready`, then exactly one `exited`. */
export type ReplicaEvent =
  /** It runs and may be probed at `address` (of cortex apps it is known when they are ready, so it comes together with `ready`). */
  | {
      readonly kind: "started";
      readonly replicaId: ReplicaId;
      readonly at: number;
      readonly address: Address;
      /** A sentence for the app's owner that explains why it may never take calls there; null when nothing is odd. */
      readonly hint: string | null;
    }
  /** It says by itself that it takes calls (the cortex runtime does; custom apps are probed by the scheduler). */
  | { readonly kind: "ready"; readonly replicaId: ReplicaId; readonly at: number; readonly address: Address }
  /** It is gone, and all its log lines were handed over before. `reason` is a sentence for the app's owner. */
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

/** A replica that the driver owns, found by `list`; it may have been started by an earlier process of the platform. */
export type OwnedReplica = {
  readonly replicaId: ReplicaId;
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly state: "running" | "exited";
  /** Running as far as is known, but not seen to since the driver was opened: it may have ended while nobody watched. */
  readonly isUnseen?: true;
  /** For how long its process has run, where that is known whatever the clock did. */
  readonly ranMs?: number;
  /** Null when it has not come so far. */
  readonly address: Address | null;
  readonly isReady: boolean;
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
  /** Compute types that replicas can get here, for example `["CPU"]`. */
  readonly compute: readonly string[];
};

/** Runs replicas on one kind of ground. All methods may be called again with the same id without harm. */
export interface Driver {
  readonly name: "process" | "docker" | "kubernetes" | "fake";
  readonly capabilities: Capabilities;
  /**
   * Begins to watch, also what an earlier process started: `list` is true after it, and lines of adopted replicas flow.
   * What `list` says then is not told again as an event; a replica that ended unseen is listed as running until its
   * lines are handed over and `exited` is told.
   */
  open(sink: ReplicaSink): Promise<void>;
  /**
   * Resolves when the replica's own process runs (before it is ready). Rejects with `StartRefused` and leaves nothing behind, also
   * when it is aborted or stopped meanwhile; no `exited` is told then. An id that exists already is left as it is.
   */
  start(spec: ReplicaSpec, signal: AbortSignal): Promise<void>;
  /** Asks it to end, ends it by force after `graceMs`; resolves when it is gone. An unknown id resolves at once. */
  stop(replicaId: ReplicaId, options: { readonly graceMs: number }): Promise<void>;
  list(): Promise<readonly OwnedReplica[]>;
  /** Drops what is left of an exited replica: its record and files. One that runs is left alone; an unknown id is fine. */
  forget(replicaId: ReplicaId): Promise<void>;
  /** Stops watching. Replicas go on running. */
  close(): Promise<void>;
}

/** Why a replica could not be started, in a sentence for the app's owner. */
export class StartRefused extends Error {
  override readonly name = "StartRefused";
}
