// What every area gets when it is opened: the database and its notifications, sealing keys, log,
// clock and lifecycle.
import type { Clock } from "#lib/clock.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "./database.ts";
import type { Notifications } from "./notify.ts";

/** The parts from which each area takes what it needs. */
export type Foundation = {
  readonly db: Db;
  readonly notifications: Notifications;
  readonly sealer: Sealer;
  /** Identifies the installation: the same for every platform that ever works on the database. */
  readonly installationId: string;
  /** Identifies the platform with its data folder: the same for each process that works in it. */
  readonly instanceId: string;
  readonly lifecycle: Lifecycle;
  readonly log: Log;
  readonly clock: Clock;
};
