// Removes what is left of deleted apps, in bounded steps: each turn reads which apps those are, so
// a restarted platform goes on where a killed one was. Running calls and runs may end first; the
// scheduler drains the replicas, since the route is gone.
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { endRemoval, readDeleted, removalSteps, type DeletedApp } from "./app-removal-store.ts";

export type AppRemovalOptions = Pick<Foundation, "db" | "clock" | "log"> & {
  /** Called when nothing is left of an app in the database: its artifacts are unused. */
  readonly onRemoved: () => void;
};

/** Replicas, builds and runs take a while to end. */
const intervalMs = 5_000;
const batchMaxDefault = 5_000;
/** Per step, app and turn: a large app must not block the others. */
const batchesMax = 20;

/** One per platform. Not started; `nudge` it when an app was deleted. */
export function appRemoval(options: AppRemovalOptions): Loop {
  const { db, clock, log, onRemoved } = options;
  const turn = async (signal: AbortSignal): Promise<void> => {
    for (const app of await readDeleted(db)) {
      if (await isMore(db, app, signal)) loop.nudge();
      if (signal.aborted) return;
      if (!(await endRemoval(db, app.id))) continue;
      log.info({ appId: app.id }, "removed a deleted app");
      onRemoved();
    }
  };
  const loop = new Loop({ name: "removal of apps", intervalMs, turn, clock, log });
  return loop;
}

/** Runs each step for a while; true when one of them had more to do. */
async function isMore(db: Db, app: DeletedApp, signal: AbortSignal): Promise<boolean> {
  let hasMore = false;
  for (const { remove, batchMax = batchMaxDefault } of removalSteps(db, app)) {
    let isFull = true;
    for (let batches = 0; isFull && batches < batchesMax && !signal.aborted; batches++) {
      isFull = (await remove(batchMax)) >= batchMax;
    }
    hasMore ||= isFull;
  }
  return hasMore;
}
