// Queries on the releases of apps: which ones there are, and which one takes the calls.
import { sql } from "kysely";
import type { AppId, ReleaseId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import type { Tables } from "#store/tables.ts";

/**
 * A release. During a roll-out, `share` is the percentage of the app's calls that the release which
 * is being rolled out is to get, whichever release the row has; null: no roll-out is under way.
 */
export type ReleaseRow = Awaited<ReturnType<typeof readReleases>>[number];

/** How a release that took calls until now ends. */
export type ReleaseEnd = {
  readonly state: Extract<Tables["releases"]["state"], "replaced" | "taken_back">;
  /** A sentence for the app's owner. */
  readonly reason: string;
};

/**
 * Makes a release live, so that it takes all of the app's calls. Ends the release that was live
 * before. Also ends the roll-out under way: as finished if it rolled out this release, else as
 * replaced. The caller holds the lock on the app's row.
 */
export async function makeLive(
  tx: Tx,
  change: { readonly appId: AppId; readonly releaseId: ReleaseId; readonly endOfOther: ReleaseEnd },
): Promise<void> {
  const { appId, releaseId, endOfOther } = change;
  await tx
    .updateTable("apps")
    .set({ live_release_id: releaseId, updated_at: sql<Date>`clock_timestamp()` })
    .where("id", "=", appId)
    .execute();
  await tx
    .updateTable("releases")
    .set({
      state: endOfOther.state,
      end_reason: endOfOther.reason,
      ended_at: sql<Date>`clock_timestamp()`,
    })
    .where("app_id", "=", appId)
    .where("state", "=", "live")
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
  // The release itself is live by now, so this ends only another one that is being rolled out. If
  // it is replaced, it never had all calls.
  await endRolledOut(tx, appId, endOfOther.state === "replaced" ? unfinished : endOfOther);
  const isOfRelease = sql<boolean>`release_id = ${releaseId}`;
  await sql`
    update roll_outs set state = case when ${isOfRelease} then 'finished' else 'replaced' end,
        share = case when ${isOfRelease} then 100 else share end,
        reason = case when ${isOfRelease} then null else ${endOfOther.reason} end,
        step_ends_at = null, step_left_ms = null, ended_at = clock_timestamp()
     where app_id = ${appId} and ended_at is null`.execute(tx);
  await notify(tx, "apps", appId);
}

/**
 * How a release ends that never had all calls. A rollback returns to such a release only if the
 * request names its number.
 */
const unfinished: ReleaseEnd = {
  state: "taken_back",
  reason: "A newer release took its place before it had all calls.",
};

/**
 * Ends the release that is being rolled out, by default because a newer one takes its place. The
 * caller holds the lock on the app's row.
 */
export async function endRolledOut(
  tx: Tx,
  appId: AppId,
  { state, reason }: ReleaseEnd = unfinished,
): Promise<void> {
  await tx
    .updateTable("releases")
    .set({ state, end_reason: reason, ended_at: sql<Date>`clock_timestamp()` })
    .where("app_id", "=", appId)
    .where("state", "=", "rolling_out")
    .execute();
}

/**
 * Releases of an app, newest first, at most `limit`: with numbers below `before`, or any if that is
 * null. No locks.
 */
export async function readReleases(
  db: Db,
  {
    appId,
    before,
    limit,
  }: { readonly appId: AppId; readonly before: number | null; readonly limit: number },
) {
  let query = releasesOf(db, appId);
  if (before !== null) query = query.where("number", "<", before);
  return await query.orderBy("number", "desc").limit(limit).execute();
}

/** One release of an app; locked on request. */
export async function readRelease(
  db: Db,
  appId: AppId,
  number: number,
  { isLocked = false }: { readonly isLocked?: boolean } = {},
): Promise<ReleaseRow | undefined> {
  const query = releasesOf(db, appId).where("number", "=", number);
  const reading = isLocked ? query.forUpdate() : query;
  return await reading.executeTakeFirst();
}

/** The artifact of a release, as a driver starts it. */
export type Built = {
  readonly kind: string;
  readonly [key: string]: string | number | boolean | null;
};

/** The artifact of the release with this number. */
export async function readArtifact(
  db: Db,
  appId: AppId,
  number: number,
): Promise<Built | undefined> {
  const query = db
    .selectFrom("releases")
    .select("artifact")
    .where("app_id", "=", appId)
    .where("number", "=", number);
  return (await query.executeTakeFirst())?.artifact as Built | undefined;
}

/**
 * The newest release with a number below `before` that was replaced and can still be started; locks
 * its row.
 */
export async function readEarlierRelease(
  tx: Tx,
  { appId, before }: { readonly appId: AppId; readonly before: number },
): Promise<ReleaseRow | undefined> {
  return await releasesOf(tx, appId)
    .where("number", "<", before)
    .where("state", "=", "replaced")
    .where("collected_at", "is", null)
    .orderBy("number", "desc")
    .limit(1)
    .forUpdate()
    .executeTakeFirst();
}

function releasesOf(db: Db, appId: AppId) {
  return db
    .selectFrom("releases")
    .select([
      "id",
      "number",
      "state",
      "end_reason",
      "ended_at",
      "collected_at",
      "cause",
      "created_by",
      "build_id",
    ])
    .select([
      "commit_sha",
      "commit_message",
      "commit_author",
      "branch",
      "settings",
      "created_at",
      "promoted_at",
    ])
    .select((select) =>
      select
        .selectFrom("roll_outs")
        .select("share")
        .whereRef("roll_outs.app_id", "=", "releases.app_id")
        .where("roll_outs.ended_at", "is", null)
        .as("share"),
    )
    .where("app_id", "=", appId);
}
