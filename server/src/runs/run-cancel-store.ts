// Queries that cancel runs. Callers hold the lock on the run's row.
import { sql } from "kysely";
import type { RunId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";

/** Asks the platform that holds the run to end it. */
export async function requestCancelOf(tx: Tx, runId: RunId): Promise<void> {
  await tx
    .updateTable("runs")
    .set({ cancel_requested_at: sql<Date>`coalesce(cancel_requested_at, clock_timestamp())` })
    .where("id", "=", runId)
    .execute();
}

/** Ends a run that no platform holds. The new epoch prevents writes of earlier holders. */
export async function cancelPendingRun(tx: Tx, runId: RunId): Promise<void> {
  const now = sql<Date>`clock_timestamp()`;
  const reason = sql<string>`
    'It was cancelled before it was ' || case when attempt = 0 then 'sent to the app.' else 'tried again.' end`;
  await tx
    .updateTable("runs")
    .set((row) => ({
      state: "cancelled",
      reason,
      status_code: null,
      ended_at: now,
      cancel_requested_at: now,
      webhook_secret_sealed: null,
      lease_epoch: row("lease_epoch", "+", 1),
    }))
    .where("id", "=", runId)
    .where("state", "=", "pending")
    .execute();
  await tx.deleteFrom("run_requests").where("run_id", "=", runId).execute();
}
