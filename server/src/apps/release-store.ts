// Queries on the releases of apps: which one takes the calls.
import { sql } from "kysely";
import type { AppId, ReleaseId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import type { ReleasesTable } from "#store/tables.ts";

/** How a release ends that took calls until now. */
export type ReleaseEnd = {
  readonly state: Extract<ReleasesTable["state"], "replaced" | "taken_back">;
  /** A sentence for the app's owner. */
  readonly reason: string;
};

/** Makes a release live, so that it takes the app's calls, and ends the one before. The caller holds the lock on the app's row. */
export async function makeLive(
  tx: Tx,
  given: { readonly appId: AppId; readonly releaseId: ReleaseId; readonly endOfOther: ReleaseEnd },
): Promise<void> {
  const { appId, releaseId, endOfOther } = given;
  await tx
    .updateTable("apps")
    .set({ live_release_id: releaseId, updated_at: sql<Date>`clock_timestamp()` })
    .where("id", "=", appId)
    .execute();
  await tx
    .updateTable("releases")
    .set({ state: endOfOther.state, end_reason: endOfOther.reason, ended_at: sql<Date>`clock_timestamp()` })
    .where("app_id", "=", appId)
    .where("state", "in", ["live", "rolling_out"])
    .where("id", "<>", releaseId)
    .execute();
  await tx
    .updateTable("releases")
    .set({
      state: "live",
      end_reason: null,
      ended_at: null,
      promoted_at: sql<Date>`coalesce(promoted_at, clock_timestamp())`,
    })
    .where("id", "=", releaseId)
    .execute();
  await notify(tx, "apps", appId);
}
