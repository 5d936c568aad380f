// Queries on the releases that builds make and on the artifacts that they need.
import { sql, type RawBuilder } from "kysely";
import type { ReleaseSettings } from "#apps/settings.ts";
import type { UsedArtifacts } from "#drivers/builder.ts";
import type { Artifact } from "#drivers/driver.ts";
import { firstDriver, isDriverName, type DriverName } from "#drivers/driver-table.ts";
import { must } from "#lib/assert.ts";
import { newReleaseId, type AppId, type BuildId, type ReleaseId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";

/**
 * The driver that made the newest release. For apps without a release: the driver that earlier
 * versions used by default. Null without apps.
 */
export async function driverOfApps(db: Db): Promise<DriverName | null> {
  const { rows } = await sql<{ kind: string | null }>`
    select (select artifact ->> 'kind' from releases order by created_at desc limit 1) as kind from apps limit 1`.execute(
    db,
  );
  const [row] = rows;
  if (row === undefined) return null;
  return isDriverName(row.kind) ? row.kind : firstDriver;
}

/**
 * Creates the release of a build with the commit and the creator of the build, or updates the
 * release of an earlier attempt with the new artifact. The caller holds the lock on the app's row,
 * which orders the numbers.
 */
export async function putRelease(
  tx: Tx,
  release: ReleaseSettings & {
    readonly releaseId: ReleaseId;
    readonly buildId: BuildId;
    readonly artifact: Artifact;
  },
): Promise<{ readonly id: ReleaseId; readonly number: number }> {
  const { buildId } = release;
  const settings = toJson(release.settings);
  const origins = toJson(release.origins);
  const files = toJson(release.files);
  const artifact = toJson(release.artifact);
  const earlier = await sql<{ id: ReleaseId; number: number }>`
    update releases r set settings = ${settings}, origins = ${origins}, base_settings = ${files}, artifact = ${artifact},
      commit_sha = b.commit_sha, commit_message = b.commit_message, commit_author = b.commit_author, branch = b.branch
    from builds b where b.id = ${buildId} and r.build_id = b.id and r.state = 'starting'
    returning r.id, r.number`.execute(tx);
  if (earlier.rows[0] !== undefined) return earlier.rows[0];
  const { rows } = await sql<{ id: ReleaseId; number: number }>`
    insert into releases (id, project_id, app_id, build_id, number, state, settings, origins, base_settings, artifact,
      cause, created_by, commit_sha, commit_message, commit_author, branch)
    select ${release.releaseId}, project_id, app_id, id,
      (select coalesce(max(number), 0) + 1 from releases where app_id = builds.app_id), 'starting',
      ${settings}, ${origins}, ${files}, ${artifact}, cause, created_by, commit_sha, commit_message, commit_author, branch
    from builds where id = ${buildId}
    returning id, number`.execute(tx);
  return must(rows[0], "a release is made of a build");
}

/**
 * Creates the release of a build that keeps an artifact, or updates the release of an earlier
 * attempt: it gets the artifact and the commit of another release, with other settings. The caller
 * holds the lock on the app's row.
 */
export async function copyRelease(
  tx: Tx,
  copy: {
    readonly buildId: BuildId;
    readonly from: ReleaseId;
    readonly settings: ReleaseSettings;
  },
): Promise<{
  readonly releaseId: ReleaseId;
  readonly number: number;
  readonly artifact: Artifact;
}> {
  const { buildId, from, settings } = copy;
  const source = await sql<{ artifact: Artifact }>`
    update builds b set commit_sha = r.commit_sha, commit_message = r.commit_message,
      commit_author = r.commit_author, branch = r.branch, upload_id = maker.upload_id
    from releases r join builds maker on maker.id = r.build_id where b.id = ${buildId} and r.id = ${from}
    returning r.artifact`.execute(tx);
  const { artifact } = must(source.rows[0], "the other release is stored");
  const { id, number } = await putRelease(tx, {
    ...settings,
    releaseId: newReleaseId(),
    buildId,
    artifact,
  });
  return { releaseId: id, artifact, number };
}

/**
 * Ends the releases that these builds made and that never took calls. Each gets the reason of its
 * build; builds that have not ended are skipped.
 */
export async function failReleases(tx: Tx, buildIds: readonly BuildId[]): Promise<void> {
  await tx
    .updateTable("releases")
    .from("builds")
    .set((set) => ({
      state: "failed" as const,
      end_reason: set.fn.coalesce("builds.reason", set.val("Its build has ended.")),
      ended_at: sql<Date>`clock_timestamp()`,
    }))
    .whereRef("releases.build_id", "=", "builds.id")
    .where("builds.id", "in", buildIds)
    .where("builds.status", "<>", "success")
    .where("builds.ended_at", "is not", null)
    .where("releases.state", "=", "starting")
    .execute();
}

/**
 * Reserves an artifact for a build: that of an earlier build of the app with the same fingerprint,
 * if a release with it took calls and still keeps it; undefined when there is none. An artifact
 * from more than a day ago counts only if `isLasting`.
 */
export async function reuseArtifact(
  db: Db,
  build: {
    readonly appId: AppId;
    readonly fingerprint: string;
    readonly isLasting: boolean;
    readonly held: RawBuilder<boolean>;
  },
): Promise<{ readonly buildNumber: number; readonly artifact: Artifact } | undefined> {
  return await db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ buildNumber: number; artifact: Artifact }>`
      select maker.number as "buildNumber", r.artifact
      from builds maker join releases r on r.app_id = maker.app_id and r.artifact = maker.artifact
      where maker.app_id = ${build.appId} and maker.fingerprint = ${build.fingerprint}
        and r.promoted_at is not null and r.collected_at is null
        and (${build.isLasting} or maker.created_at > clock_timestamp() - interval '1 day')
      order by maker.number desc, r.number desc limit 1 for share of r`.execute(tx);
    const [earlier] = rows;
    if (earlier === undefined) return undefined;
    await tx
      .updateTable("builds")
      .set({ artifact: toJson(earlier.artifact) })
      .where(build.held)
      .execute();
    return earlier;
  });
}

/**
 * Gives up the artifacts of releases that never took calls. Of the artifacts whose releases took
 * calls, each app keeps the last `keptMax`; several releases may share one. Releases that take
 * calls or have replicas, and the latest one that had all calls, also keep theirs. From then on,
 * `readUsed` leaves out the artifacts that were given up.
 */
export async function giveUpArtifacts(db: Db, keptMax: number): Promise<void> {
  await sql`
    update releases r set collected_at = clock_timestamp()
    from (select id, dense_rank() over (partition by app_id order by newest desc nulls last) as recency
            from (select id, app_id, max(number) filter (where promoted_at is not null)
                    over (partition by app_id, artifact) as newest from releases) of_artifacts) ranked
    where ranked.id = r.id and r.collected_at is null and r.ended_at is not null
      and (r.promoted_at is null or ranked.recency > ${keptMax})
      and r.number <> coalesce((select max(number) from releases where app_id = r.app_id and state = 'replaced'), 0)
      and not exists (select from replicas where release_id = r.id and stopped_at is null)`.execute(
    db,
  );
}

/** The artifacts that releases keep and that builds have reserved, and the unfinished builds. */
export async function readUsed(db: Db): Promise<UsedArtifacts> {
  const { rows } = await sql<{ artifact: Artifact }>`
    select artifact from releases where collected_at is null
    union select artifact from builds where ended_at is null and artifact is not null`.execute(db);
  return { artifacts: rows.map((row) => row.artifact), building: await readUnfinished(db) };
}

/** The unfinished builds of all apps. No order, no locks. */
export async function readUnfinished(db: Db): Promise<readonly BuildId[]> {
  const rows = await db.selectFrom("builds").select("id").where("ended_at", "is", null).execute();
  return rows.map(({ id }) => id);
}

/** The stored settings of a release, and why and when its build was asked for. */
export async function readReleaseWithBuild(tx: Tx, releaseId: ReleaseId) {
  return await tx
    .selectFrom("releases")
    .innerJoin("builds", "builds.id", "releases.build_id")
    .select(["releases.settings", "releases.origins", "releases.base_settings"])
    .select(["builds.cause", "builds.created_at as askedAt"])
    .where("releases.id", "=", releaseId)
    .executeTakeFirstOrThrow();
}

/**
 * The latest replica of a release, and the number of the release; undefined: it never had one, or
 * the last one ended so long ago that its row is gone.
 */
export async function latestReplicaOf(tx: Tx, releaseId: ReleaseId) {
  return await tx
    .selectFrom("replicas")
    .innerJoin("releases", "releases.id", "replicas.release_id")
    .select(["replicas.id", "replicas.project_id", "releases.number"])
    .where("release_id", "=", releaseId)
    .orderBy("replicas.created_at", "desc")
    .limit(1)
    .executeTakeFirst();
}
