// Stops, starts, restarts and deletes apps. Each change locks the app's row, so that changes of one
// app happen one after the other, and writes the app's row and the audit row in one transaction.
// Scheduler, proxy and runs learn of a change through the routing table.
import type { AuditAction } from "@slipway/contract/words.ts";
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { AppKey } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { recordOfApp } from "./app-audit.ts";
import { markAppsDeleted } from "./app-removal-store.ts";
import { countRestart, lockAppForChange, setStopped, type AppRow } from "./app-store.ts";
import { pauseRollOut } from "./roll-out-store.ts";

/** Identifies an app, and who changes it. */
export type AppChange = AppKey & { readonly by: By };

/** Use cases. They throw `Fault("not_found" | "conflict")`. */
export class AppLifecycle {
  readonly #db: Db;
  readonly #onDeleted: () => void;

  /** `onDeleted` is called when the deletion of an app has been committed. */
  constructor({ db, onDeleted }: { readonly db: Db; readonly onDeleted: () => void }) {
    this.#db = db;
    this.#onDeleted = onDeleted;
  }

  /**
   * Stops the app: new calls are refused, runs wait, replicas end after their calls, a roll-out
   * pauses. The stop lasts until `start`; the roll-out stays paused until somebody resumes it.
   */
  async stop(change: AppChange): Promise<void> {
    await this.#change(change, "app.stop", async (tx, app) => {
      if (app.stopped_at !== null)
        throw new Fault(
          "conflict",
          `The app is already stopped, since ${app.stopped_at.toISOString()}.`,
        );
      await setStopped(tx, app.id, true);
      await pauseRollOut(tx, app.id);
      return { stopped: { old: false, new: true } };
    });
  }

  /** Starts a stopped app. */
  async start(change: AppChange): Promise<void> {
    await this.#change(change, "app.start", async (tx, app) => {
      if (app.stopped_at === null) throw new Fault("conflict", "The app is not stopped.");
      await setStopped(tx, app.id, false);
      return { stopped: { old: true, new: false } };
    });
  }

  /** Replaces the app's replicas step by step while others serve. */
  async restart(change: AppChange): Promise<void> {
    await this.#change(change, "app.restart", async (tx, app) => {
      if (app.stopped_at !== null)
        throw new Fault("conflict", "The app is stopped; start it instead.");
      if (app.live_release_id === null)
        throw new Fault("conflict", "The app has no release yet, so there is nothing to restart.");
      await countRestart(tx, app.id);
      return {};
    });
  }

  /**
   * Deletes the app. When this resolves, its name is free and its calls are refused. Running calls
   * and runs may still finish; then everything but the app's audit log and usage is removed.
   */
  async delete(change: AppChange): Promise<void> {
    await this.#change(change, "app.delete", async (tx, app) => {
      await markAppsDeleted(tx, [app.id]);
      // The app's budget was deleted with the app, but is still in memory, with the plans.
      await notify(tx, "plans", change.projectId);
      return {};
    });
    this.#onDeleted();
  }

  /** Runs `act` on the locked app, and records the changes that it returns. */
  async #change(
    change: AppChange,
    action: AuditAction,
    act: (tx: Tx, app: AppRow) => Promise<Record<string, { old: unknown; new: unknown }>>,
  ): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      const app = await lockAppForChange(tx, change);
      await recordOfApp(tx, { ...change, name: app.name, action, changes: await act(tx, app) });
      await notify(tx, "apps", change.appId);
    });
  }
}
