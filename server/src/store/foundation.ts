// What every area is opened with: the database and word of its changes, the keys that seal, log, clock, and the order of closing.
import type { Clock } from "#lib/clock.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "./database.ts";
import type { Notifications } from "./notify.ts";

/** The database and word of its changes, keys that seal, the order in which things are closed. */
export type Foundation = {
  readonly db: Db;
  readonly notifications: Notifications;
  readonly sealer: Sealer;
  /** Of this process on its data folder. */
  readonly instanceId: string;
  readonly lifecycle: Lifecycle;
  readonly log: Log;
  readonly clock: Clock;
};
