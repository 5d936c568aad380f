// Queries on the statuses of commits: which builds of pushes have a state that their git host was not told yet.
import { sql } from "kysely";
import type { BuildState, GitHostKind } from "@slipway/contract/words.ts";
import type { AppId, BuildId, GitDeliveryId, ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { StatusState } from "./status-request.ts";

/** A build of a push, and what its host knows. */
export type UnreportedBuild = {
  readonly id: GitDeliveryId;
  readonly host: GitHostKind | null;
  readonly reported: StatusState | null;
  readonly reportTries: number;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly appName: string;
  readonly buildId: BuildId;
  readonly number: number;
  readonly status: BuildState;
  readonly reason: string | null;
  readonly commit: string;
  readonly gitRepo: string;
};

/** Builds whose state is to be told now, the longest due first. No locks: only one platform works on a database. */
export async function unreportedBuilds(db: Db, limit: number): Promise<UnreportedBuild[]> {
  const { rows } = await sql<UnreportedBuild>`
    select delivery.id, delivery.host, delivery.reported, delivery.report_tries as "reportTries",
           build.project_id as "projectId", build.app_id as "appId", app.name as "appName", build.id as "buildId",
           build.number, build.status, build.reason, build.commit_sha as commit, build.request ->> 'gitRepo' as "gitRepo"
      from git_deliveries delivery
      join builds build on build.id = delivery.build_id
      join apps app on app.id = build.app_id
     where delivery.report_at <= clock_timestamp()
       and delivery.reported is distinct from
           case when build.ended_at is null then 'pending' when build.status in ('success', 'cancelled') then build.status
                else 'failure' end
     order by delivery.report_at limit ${limit}`.execute(db);
  return rows;
}

/** Notes what the host was told, or why not; after the last one there is nothing more to tell. */
export async function noteReport(
  db: Db,
  id: GitDeliveryId,
  note: {
    readonly reported: StatusState | null;
    readonly isLast: boolean;
    readonly failure?: string | null;
    readonly tries?: number;
    readonly retryAt?: Date;
  },
): Promise<void> {
  const { reported, isLast, failure = null, tries = 0, retryAt = sql<Date>`clock_timestamp()` } = note;
  await db
    .updateTable("git_deliveries")
    .set({ reported, report_failure: failure, report_tries: tries, report_at: isLast ? null : retryAt })
    .where("id", "=", id)
    .execute();
}
