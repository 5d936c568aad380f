// Removes the rows of deleted apps, in bounded steps. Each turn reads which apps are deleted, so a
// restarted platform continues where a killed one stopped. Running calls and runs may end first;
// the scheduler drains the replicas, since the app has no route any more.
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { endRemoval, readDeleted, removalSteps, type DeletedApp } from "./app-removal-store.ts";

export type AppRemovalOptions = Pick<Foundation, "db" | "clock" | "log"> & {
  /** Called when an app was marked as removed: nothing uses its artifacts any more. */
  readonly onRemoved: () => void;
};

/** The time between turns: replicas, builds and runs take a while to end. */
const intervalMs = 5_000;
/** The maximum number of rows of a batch, unless the step sets its own. */
const batchMaxDefault = 5_000;
/** How many batches a step may run in one turn, so that a large app does not block the others. */
const batchesMax = 20;

/** Makes the loop. The caller starts it, and nudges it when an app was deleted. */
export function appRemoval(options: AppRemovalOptions): Loop {
  const { db, clock, log, onRemoved } = options;
  const turn = async (signal: AbortSignal): Promise<void> => {
    for (const app of await readDeleted(db)) {
      const hasMore = await removeSome(db, app, signal);
      if (hasMore) loop.nudge();
      if (signal.aborted) return;
      if (!(await endRemoval(db, app.id))) continue;
      log.info({ appId: app.id }, "removed a deleted app");
      onRemoved();
    }
  };
  const loop = new Loop({ name: "removal of apps", intervalMs, turn, clock, log });
  return loop;
}

/** Runs up to `batchesMax` batches of each step; true when a step has more to remove. */
async function removeSome(db: Db, app: DeletedApp, signal: AbortSignal): Promise<boolean> {
  let hasMore = false;
  for (const { remove, batchMax = batchMaxDefault } of removalSteps(db, app)) {
    // A batch that is not full is the last one.
    let isFull = true;
    for (let batches = 0; isFull && batches < batchesMax && !signal.aborted; batches++) {
      isFull = (await remove(batchMax)) >= batchMax;
    }
    hasMore ||= isFull;
  }
  return hasMore;
}
