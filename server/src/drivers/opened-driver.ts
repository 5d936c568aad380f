// The input of every driver, and what opening one returns.
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import type { Builder } from "./builder.ts";
import type { Driver } from "./driver.ts";
import type { Files } from "./storage-files.ts";

/** The input for opening any driver. */
export type DriverParts = {
  /** Labels the replicas; a driver touches no others. */
  readonly installationId: string;
  /** Names what a driver keeps on this machine for a platform with its data folder. */
  readonly instanceId: string;
  readonly lifecycle: Lifecycle;
  readonly log: Log;
  readonly clock: Clock;
};

/** A driver and its builder, and what not every driver has. */
export type OpenedDriver = {
  readonly driver: Driver;
  readonly builder: Builder;
  /** The disk of the data folder, where replicas and builds write to it too; null: they do not. */
  readonly disk: SharedDisk | null;
  /** The storage of projects, for others than its apps; null: only apps reach it. */
  readonly files: Files | null;
  /**
   * Called once the platform listens: apps with their own networks may call it on this port; null:
   * they reach it, or never will.
   */
  readonly onListening: ((port: number) => Promise<void>) | null;
};

/** A disk that the platform shares with replicas and builds. */
export type SharedDisk = {
  /** Free bytes including the reserve, and how many of them the platform keeps for itself. */
  readonly freeSpace: { readonly bytes: number; readonly reserveBytes: number };
  /**
   * Why nothing is built, and no files for a build are taken, while disk space is short; null when
   * there is enough.
   */
  buildRefusal(): string | null;
  /** Why nothing new is stored while disk space is short; null when there is enough. */
  storeRefusal(): string | null;
  /** What the storage of a project may hold, instead of what all may. */
  limitStorage(projectId: ProjectId, bytes: number): void;
  /** Ends all replicas of a project, with a reason for its owner. */
  endReplicas(projectId: ProjectId, reason: string): void;
};
