// Describes the input for opening a driver, and the result.
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import type { Builder } from "./builder.ts";
import type { Driver } from "./driver.ts";
import type { Files } from "./storage-files.ts";

/** The input for opening any driver. */
export type DriverParts = {
  /** The label of the replicas; a driver touches no replica without it. */
  readonly installationId: string;
  /** Identifies the driver's files and processes on this machine for one data folder. */
  readonly instanceId: string;
  readonly lifecycle: Lifecycle;
  readonly log: Log;
  readonly clock: Clock;
};

/** A driver with its builder, and with parts that not every driver has. */
export type OpenedDriver = {
  readonly driver: Driver;
  readonly builder: Builder;
  /** The disk of the data folder, if replicas and builds write to it too; null: they do not. */
  readonly disk: SharedDisk | null;
  /** Access to the storage of projects for the API; null: only apps reach the storage. */
  readonly files: Files | null;
  /**
   * Called with the port once the platform listens on it, to let apps with their own networks call
   * it. Null: nothing has to be done for this.
   */
  readonly onListening: ((port: number) => Promise<void>) | null;
};

/** A disk that the platform shares with replicas and builds. */
export type SharedDisk = {
  /** The free bytes, including the platform's own reserve, and the size of this reserve. */
  readonly freeSpace: { readonly bytes: number; readonly reserveBytes: number };
  /**
   * Says why no build begins and no files for a build are accepted while disk space is short; null
   * when there is enough.
   */
  buildRefusal(): string | null;
  /** Says why nothing new is stored while disk space is short; null when there is enough. */
  storeRefusal(): string | null;
  /**
   * Sets the size that the storage of a project may have, instead of the limit for all projects.
   */
  limitStorage(projectId: ProjectId, bytes: number): void;
  /** Ends all replicas of a project, with a reason for its owner. */
  endReplicas(projectId: ProjectId, reason: string): void;
};
