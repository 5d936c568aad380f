// What every driver is opened with, and what opening it returns.
import type { Clock } from "#lib/clock.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import type { Builder } from "./builder.ts";
import type { Driver } from "./driver.ts";

/** What every driver is opened with. */
export type DriverParts = {
  /** Replicas carry it; a driver touches no others. */
  readonly instanceId: string;
  readonly lifecycle: Lifecycle;
  readonly log: Log;
  readonly clock: Clock;
};

/** A driver and its builder. */
export type OpenedDriver = {
  readonly driver: Driver;
  readonly builder: Builder;
  /** The disk of this machine that replicas and builds write to. */
  readonly disk: SharedDisk;
  /** Once the platform listens: apps in networks of their own may call it there. */
  readonly onListening: (port: number) => Promise<void>;
};

/** A disk that the platform shares with replicas and builds. */
export type SharedDisk = {
  /** Free bytes, with what is reserved, and how much of them the platform keeps for itself. */
  readonly room: { readonly bytes: number; readonly reserveBytes: number };
  /** Why nothing new is stored for want of room; null: there is room. */
  storeRefusal(): string | null;
};
