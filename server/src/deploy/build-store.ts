// Queries of the build queue. Every change by a worker checks its lease, names the states it
// leaves, and notifies; the row count shows whether the worker still owned the build.
import { buildAgain } from "@slipway/contract/advice.ts";
import { sql, type RawBuilder } from "kysely";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { BuildState } from "@slipway/contract/words.ts";
import type { Artifact } from "#drivers/driver.ts";
import type { BuildId } from "#lib/ids.ts";
import { addBuildLines } from "#logs/build-log-store.ts";
import type { Db, Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { notify } from "#store/notify.ts";
import { ownerKey } from "#store/project-owner-store.ts";
import { lastLines } from "./build-ending.ts";
import { isEnd, buildStatesBefore, takesMax } from "./build-states.ts";
import { failReleases } from "./release-store.ts";
import type { FetchedSource } from "./source.ts";
import { uploadHours } from "./upload-store.ts";

/** What a worker needs to know about a build. */
export type BuildRecord = NonNullable<Awaited<ReturnType<typeof readBuild>>>;

/**
 * The builds that a platform works on, and the maximum for one owner's projects while there are
 * other owners.
 */
export type OwnerShare = {
  readonly running: readonly BuildId[];
  readonly runningMax: number;
  /** The builds of `running` that use a slot: they do more than start their app. */
  readonly working: readonly BuildId[];
  readonly workingMax: number;
};

/**
 * Selects the unfinished builds that may start, for `Leases.claim`. Such a build is not cancelled,
 * has all its files, has attempts left, is the oldest unfinished build of its app whose files are
 * there, and fits into the share of its project's owner.
 */
export function claimable({ running, runningMax, working, workingMax }: OwnerShare) {
  const isUnfinished = sql`ended_at is null and not awaits_upload and cancel_requested_at is null`;
  const mayStart = sql`lease_epoch < ${takesMax} and id <> all(${running}::uuid[])`;
  const hasOlder = sql`exists (
    select from builds older
    where older.app_id = builds.app_id and older.number < builds.number and older.ended_at is null
      and not older.awaits_upload)`;
  const ownerOfOther = ownerKey(sql`beside.project_id`);
  const isSameOwner = sql`${ownerOfOther} = ${ownerKey(sql`builds.project_id`)}`;
  const fitsIntoShare = sql`(
    select count(*) < ${runningMax} and count(*) filter (where beside.id = any(${working}::uuid[])) < ${workingMax}
    from builds beside where beside.id = any(${running}::uuid[]) and ${isSameOwner})`;
  const inProgressOfOwner = sql`(
    select count(*) from builds beside
    where beside.ended_at is null and beside.lease_until > lease_clock() and ${isSameOwner})`;
  return {
    where: sql`${isUnfinished} and ${mayStart} and not ${hasOlder} and (not ${areSeveralOwners} or ${fitsIntoShare})`,
    // Owners with fewer builds in progress first, so that one with a hundred in the queue does not
    // block all others.
    order: sql`${inProgressOfOwner}, created_at, number`,
  };
}

/** A project without an owner counts as its own owner. */
const areSeveralOwners = sql`(select count(*) > 1 from (
  select distinct coalesce(members.person_id::text, projects.id) from projects
    left join members on members.project_id = projects.id and members.role = 'owner'
   where projects.deleted_at is null limit 2) as owner)`;

/** Reads a build; undefined when it does not exist. */
export async function readBuild(db: Db, buildId: BuildId) {
  return await db
    .selectFrom("builds as b")
    .innerJoin("apps as app", "app.id", "b.app_id")
    .leftJoin("releases as live", (join) =>
      join
        .onRef("live.id", "=", "app.live_release_id")
        .on(sql`live.origins ->> 'gitBranch'`, "=", "default"),
    )
    .select([
      "b.id as buildId",
      "b.project_id as projectId",
      "b.app_id as appId",
      "app.name as appName",
      "b.number",
    ])
    .select(["b.cause", "b.config_toml as configToml"])
    .select(sql<Readonly<Record<string, unknown>>>`b.request`.as("request"))
    // The commit is that of an earlier attempt or, for a rebuild, of the earlier build. The branch
    // is the requested one; null: the app's branch.
    .select(["b.commit_sha as commit", "b.branch"])
    // The branch of the live release where no setting names one; null: there is no live release, or
    // a setting names its branch.
    .select(sql<string | null>`live.settings ->> 'gitBranch'`.as("usualBranch"))
    // The settings have their stored form.
    .select("b.settings")
    // True when the app has credentials for registries.
    .select(sql<boolean>`app.docker_auth_sealed is not null`.as("hasDockerAuth"))
    // The upload has the build's files; null: they come from the repository. With `keepsArtifact`,
    // the build's release gets the artifact of the release that takes the calls.
    .select(["b.upload_id as uploadId", "b.keeps_artifact as keepsArtifact"])
    .where("b.id", "=", buildId)
    .executeTakeFirst();
}

/**
 * Moves a build, within `tx`. Returns false when the lease is lost, the state does not allow it, or
 * the build should continue but was cancelled meanwhile. Final states and `pending` release the
 * lease; a failure ends the build's release.
 */
export async function moveBuild(
  tx: Tx,
  move: {
    readonly buildId: BuildId;
    readonly held: RawBuilder<boolean>;
    readonly to: BuildState;
    readonly reason: string | null;
    readonly artifact?: Artifact;
  },
): Promise<boolean> {
  const { to } = move;
  const releasesLease = isEnd(to) || to === "pending";
  let update = tx
    .updateTable("builds")
    .set({
      status: to,
      reason: to === "cancelled" ? sql`coalesce(cancel_reason, ${move.reason})` : move.reason,
    })
    .set({ updated_at: sql<Date>`clock_timestamp()` })
    .where(move.held)
    .where("status", "in", buildStatesBefore(to));
  if (to === "building")
    update = update.set({ started_at: sql<Date>`coalesce(started_at, clock_timestamp())` });
  if (isEnd(to)) update = update.set({ ended_at: sql<Date>`clock_timestamp()` });
  if (releasesLease) update = update.set({ lease_holder: null, lease_until: null });
  if (move.artifact !== undefined) update = update.set({ artifact: toJson(move.artifact) });
  // A cancelled build must not continue; putting it back keeps the cancel request.
  if (to === "building" || to === "initializing" || to === "success")
    update = update.where("cancel_requested_at", "is", null);
  const moved = await update.returning("id").executeTakeFirst();
  if (moved === undefined) return false;
  if (isEnd(to)) await failReleases(tx, [move.buildId]);
  await notify(tx, "builds", move.buildId);
  return true;
}

/** What a build knows so far; the columns of missing fields stay as they are. */
export type IntermediateResults = {
  readonly source?: Pick<FetchedSource, SourceColumn>;
  readonly settings?: AppSettings;
  readonly reason?: string;
  readonly fingerprint?: string;
  /** When an environment was created. */
  readonly environment?: { readonly startedAt: Date; readonly endedAt: Date };
};

/**
 * Stores intermediate results; false when the lease is lost. A reason is published at once, since
 * calls of the app are answered with it.
 */
export async function recordProgress(
  db: Db,
  held: RawBuilder<boolean>,
  results: IntermediateResults,
): Promise<boolean> {
  const updated = await db
    .updateTable("builds")
    .set({
      updated_at: sql<Date>`clock_timestamp()`,
      ...(results.source === undefined ? {} : columnsOf(results.source)),
      ...(results.settings === undefined ? {} : { settings: toJson(results.settings) }),
      ...(results.reason === undefined ? {} : { reason: results.reason }),
      ...(results.fingerprint === undefined ? {} : { fingerprint: results.fingerprint }),
      ...(results.environment === undefined
        ? {}
        : {
            environment_started_at: results.environment.startedAt,
            environment_ended_at: results.environment.endedAt,
          }),
    })
    .where(held)
    .returning("id")
    .executeTakeFirst();
  if (updated !== undefined && results.reason !== undefined) await notify(db, "builds", updated.id);
  return updated !== undefined;
}

type SourceColumn = "commit" | "message" | "author" | "branch" | "sharedPaths";

function columnsOf(source: Pick<FetchedSource, SourceColumn>) {
  const { commit, message, author, branch, sharedPaths } = source;
  const columns = {
    commit_sha: commit,
    commit_message: message,
    commit_author: author,
    shared_paths: toJson(sharedPaths),
  };
  return branch === null ? columns : { ...columns, branch };
}

/** Returns which of these builds have a cancel request, and its reason. */
export async function readCancelled(
  db: Db,
  buildIds: readonly BuildId[],
): Promise<{ readonly id: BuildId; readonly reason: string | null }[]> {
  return await db
    .selectFrom("builds")
    .select(["id", "cancel_reason as reason"])
    .where("id", "in", buildIds)
    .where("cancel_requested_at", "is not", null)
    .execute();
}

/**
 * Ends builds that nobody works on and that will not start again: builds that are cancelled, that
 * have no attempts left, or whose files did not arrive in time. The `running` builds are left
 * alone, whatever their leases say: this platform works on them. Returns the number of builds that
 * it ended.
 */
export async function endAbandoned(db: Db, running: readonly BuildId[]): Promise<number> {
  return await db.transaction().execute(async (tx) => {
    const { rows } = await sql<{
      id: BuildId;
      status: "build_failure" | "cancelled";
      reason: string;
      ended_at: Date;
    }>`
      update builds set
        status = case when cancel_requested_at is null and not awaits_upload then 'build_failure' else 'cancelled' end,
        reason = case when awaits_upload
          then ${`Its files did not arrive within ${uploadHours} hours. Please deploy them again (POST …/apps).`}
          when cancel_requested_at is null
          then ${`The platform was stopped ${takesMax} times during this build, so the build is not started again. Please ${buildAgain}; if it happens once more, ask the operator to check the platform's log.`}
          else coalesce(cancel_reason, 'Cancelled.') end,
        ended_at = clock_timestamp(), updated_at = clock_timestamp(), lease_holder = null, lease_until = null
      where id in (
        select id from builds
        where ended_at is null and (lease_until is null or lease_until < lease_clock())
          and id <> all(${running}::uuid[])
          and (cancel_requested_at is not null or lease_epoch >= ${takesMax} or awaits_upload and created_at
            < clock_timestamp() - make_interval(hours => ${uploadHours}))
        for update skip locked)
      returning id, status, reason, ended_at`.execute(tx);
    const ids = rows.map(({ id }) => id);
    if (ids.length > 0) await failReleases(tx, ids);
    for (const { id, status, reason, ended_at: at } of rows) {
      const common = { at: at.getTime(), stage: "release", stream: "platform" } as const;
      await addBuildLines(
        tx,
        id,
        lastLines(status, reason).map((line) => ({ ...common, line })),
      );
      await notify(tx, "builds", id);
    }
    return rows.length;
  });
}
