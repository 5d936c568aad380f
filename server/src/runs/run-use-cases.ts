// The API's use cases for runs: reads and cancels runs, and handles dead runs. A run that a
// platform holds is not ended here: the request to cancel it is recorded, and the holder ends it.
import type { BuildReceiver } from "#apps/build-receiver.ts";
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { notify } from "#store/notify.ts";
import { DeadRuns, type RunRef } from "./dead-runs.ts";
import { lockRun } from "./dead-run-store.ts";
import { lockAwaitedBuild } from "./file-run-store.ts";
import { EndWatch } from "./end-watch.ts";
import { cancelPendingRun, requestCancelOf } from "./run-cancel-store.ts";
import { noSuchRun, RunList } from "./run-list.ts";
import { readRun, type RunRow } from "./run-list-store.ts";
import { isFinal } from "./run-states.ts";

export type RunUseCasesOptions = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly resultRetentionDays: number;
  readonly resultBytesMax: number;
  /**
   * Called after a cancel request is committed, so that a run of this process ends without a
   * notification from the database.
   */
  readonly onCancelled: (runId: RunId) => void;
  readonly builds: Pick<BuildReceiver, "requestCancel">;
  /** How long a cancel request waits for the run to end; 10 s by default. */
  readonly cancelWaitMs?: number;
};

/** Use cases of runs; one per platform, which needs no closing. */
export class RunUseCases {
  readonly list: RunList;
  readonly dead: DeadRuns;
  readonly #options: RunUseCasesOptions;
  readonly #ends: EndWatch;

  constructor(options: RunUseCasesOptions) {
    this.#options = options;
    this.list = new RunList(options);
    this.dead = new DeadRuns(options);
    this.#ends = new EndWatch(options);
  }

  /**
   * Requests the end of a run, waits a while for it and returns its current state. A run that
   * nobody holds ends at once, and with it the build that it waits for. Throws
   * `Fault("not_found")`, or `Fault("conflict")` when the run has ended already.
   */
  async cancel(ref: RunRef, by: By): Promise<RunRow> {
    const { db, onCancelled, cancelWaitMs = 10_000 } = this.#options;
    const isHeld = await db.transaction().execute(async (tx) => {
      const isRunHeld = await this.#endOrRequestEnd(tx, ref);
      await record(tx, {
        projectId: ref.projectId,
        action: "run.cancel",
        by,
        resource: { type: "run", id: ref.runId, name: ref.appId },
        changes: { status: { new: isRunHeld ? "asked to end" : "cancelled" } },
      });
      return isRunHeld;
    });
    if (isHeld) {
      onCancelled(ref.runId);
      await this.#ends.wait(ref.runId, cancelWaitMs);
    }
    return await this.list.get(ref.appId, ref.runId);
  }

  /**
   * Ends a run that no platform holds, and returns false. Otherwise requests the end from the
   * holder, and returns true.
   */
  async #endOrRequestEnd(tx: Tx, { appId, runId }: RunRef): Promise<boolean> {
    const run = await lockRun(tx, appId, runId);
    if (run === undefined) {
      // The id may be that of a plain call. Plain calls are stored only after their end.
      const call = await readRun(tx, appId, runId);
      if (call === undefined) throw noSuchRun(appId, runId);
      throw alreadyEnded(call.state);
    }
    if (isFinal(run.state)) throw alreadyEnded(run.state);
    if (run.state === "pending") {
      // Nothing else needs the build of a file that runs once.
      const build = await lockAwaitedBuild(tx, runId);
      if (build !== undefined) await this.#options.builds.requestCancel(tx, build);
      await cancelPendingRun(tx, runId);
      return false;
    }
    await requestCancelOf(tx, runId);
    await notify(tx, "run_cancels", runId);
    return true;
  }
}

function alreadyEnded(state: string): Fault {
  return new Fault("conflict", `The run has already ended: it is ${state}.`);
}
