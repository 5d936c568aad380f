// Acts on dead runs: redrives one or all of them, or deletes their kept requests. Redriving creates
// a new run from a dead one; the dead run keeps its final state and refers to the new run.
import { record, type AuditEntry, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { type AppKey, newRunId, type RunId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import {
  lockRun,
  purgeSome,
  redriveOne,
  redriveSome,
  timeNow,
  type DeadWanted,
} from "./dead-run-store.ts";
import { noSuchRun } from "./run-list.ts";
import { readRun } from "./run-list-store.ts";
import type { Foundation } from "#store/foundation.ts";

/** A run of an app in a project. */
export type RunRef = AppKey & { readonly runId: RunId };

/**
 * Selects many dead runs of an app: at most `limit` (null: all), with the given final state (null:
 * any).
 */
export type DeadChoice = AppKey & {
  readonly status: "failure" | "timeout" | null;
  readonly limit: number | null;
};

/**
 * How many runs were handled. `hasMore`: other dead runs may be left, since the time or the limit
 * ran out.
 */
export type DeadCount = { readonly count: number; readonly hasMore: boolean };

/** How many runs one transaction handles. */
const batchMax = 500;
/** After this time a request ends with a partial result, and the caller repeats it. */
const timeMsMax = 20_000;

/** Acts on dead runs. */
export class DeadRuns {
  readonly #parts: Pick<Foundation, "db" | "clock">;

  constructor(parts: Pick<Foundation, "db" | "clock">) {
    this.#parts = parts;
  }

  /**
   * Creates a new run from a dead one; returns its id. Throws `Fault("not_found" | "conflict")`.
   */
  async redrive(ref: RunRef, by: By): Promise<RunId> {
    const { projectId, appId, runId } = ref;
    const newId = newRunId();
    await this.#parts.db.transaction().execute(async (tx) => {
      await this.#requireDead(tx, ref);
      if (!(await redriveOne(tx, runId, newId))) throw requestGone();
      await record(tx, {
        projectId,
        action: "runs.redrive",
        by,
        resource: { type: "run", id: runId, name: appId },
        changes: { runId: { old: runId, new: newId } },
      });
      await notify(tx, "runs", appId);
    });
    return newId;
  }

  /** Creates new runs from dead ones, oldest first. */
  async redriveAll(choice: DeadChoice, by: By): Promise<DeadCount> {
    return await this.#inBatches(choice, async (tx, query) => {
      const redriven = await redriveSome(tx, query);
      if (redriven === 0) return 0;
      await recordMany(tx, choice, {
        action: "runs.redrive",
        by,
        counted: { redriven: { new: redriven } },
      });
      await notify(tx, "runs", choice.appId);
      return redriven;
    });
  }

  /** Deletes the requests of dead runs, oldest first; the runs stay listed. */
  async purge(choice: DeadChoice, by: By): Promise<DeadCount> {
    return await this.#inBatches(choice, async (tx, query) => {
      const purged = await purgeSome(tx, query);
      if (purged > 0)
        await recordMany(tx, choice, {
          action: "runs.purge",
          by,
          counted: { purged: { new: purged } },
        });
      return purged;
    });
  }

  async #requireDead(tx: Tx, { appId, runId }: RunRef): Promise<void> {
    const run = await lockRun(tx, appId, runId);
    if (run === undefined) {
      if ((await readRun(tx, appId, runId)) === undefined) throw noSuchRun(appId, runId);
      throw new Fault("conflict", "The run was a plain call; only async runs can be redriven.");
    }
    const { state, redriven_as: redrivenAs, request_deleted_at: deletedAt } = run;
    if (state !== "failure" && state !== "timeout") {
      throw new Fault(
        "conflict",
        `The run is ${state}; only one that ended as failure or timeout can be redriven.`,
      );
    }
    if (redrivenAs !== null)
      throw new Fault("conflict", `The run was already redriven, as run ${redrivenAs}.`);
    if (deletedAt !== null) throw requestGone();
  }

  /**
   * Repeats `work`, which handles a batch and returns how many runs it handled. Each batch is a
   * separate transaction with its audit row.
   */
  async #inBatches(
    choice: DeadChoice,
    work: (tx: Tx, query: DeadWanted) => Promise<number>,
  ): Promise<DeadCount> {
    const { appId, status } = choice;
    const endMs = this.#parts.clock.monotonicMs() + timeMsMax;
    // Runs that fail from now on are left out, such as new runs that were just created by
    // redriving.
    const before = await timeNow(this.#parts.db);
    const countMax = choice.limit ?? Number.POSITIVE_INFINITY;
    let count = 0;
    for (;;) {
      const limit = Math.min(batchMax, countMax - count);
      if (limit <= 0) return { count, hasMore: true };
      const query = { appId, status, before, limit };
      const done = await this.#parts.db.transaction().execute((tx) => work(tx, query));
      count += done;
      // The batch was not full, so no other run was found.
      if (done < limit) return { count, hasMore: false };
      if (this.#parts.clock.monotonicMs() >= endMs) return { count, hasMore: true };
    }
  }
}

/** Writes the audit row of one batch; `counted` says how many runs it handled. */
async function recordMany(
  tx: Tx,
  { projectId, appId, status }: DeadChoice,
  {
    counted,
    ...entry
  }: Pick<AuditEntry, "action" | "by"> & { readonly counted: AuditEntry["changes"] },
): Promise<void> {
  const changes = { ...counted, status: { new: status ?? "any" } };
  await record(tx, { ...entry, projectId, resource: { type: "app", id: appId }, changes });
}

function requestGone(): Fault {
  return new Fault(
    "conflict",
    "The request of the run is no longer kept, so it cannot be run again.",
  );
}
