// Queries of the routing table: each app with its live release and its latest build, in one row.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { AppId, BuildId, ProjectId, ReleaseId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { BuildsTable } from "#store/tables.ts";

/** What the proxy must know about an app. Frozen. */
export type Route = {
  readonly appId: AppId;
  readonly projectId: ProjectId;
  readonly appName: string;
  /** Of the live release; before the first one as the latest request asks for it. */
  readonly disableAuth: boolean;
  /** What takes calls; null: no build has succeeded yet. */
  readonly live: { readonly releaseId: ReleaseId; readonly buildId: BuildId; readonly settings: AppSettings } | null;
  readonly latestBuild: { readonly status: BuildsTable["status"]; readonly reason: string | null } | null;
};

/** Which apps to read; `everything` wins. */
export type RouteSelection = {
  readonly everything: boolean;
  readonly appIds: readonly AppId[];
  readonly buildIds: readonly BuildId[];
};

/** Reads the routes of all apps, or of some, named by themselves or by their builds. No order, no locks. */
export async function readRoutes(db: Db, selection: RouteSelection): Promise<Route[]> {
  let query = db
    .selectFrom("apps")
    .leftJoin("releases", "releases.id", "apps.live_release_id")
    .leftJoinLateral(
      (join) =>
        join
          .selectFrom("builds")
          .select(["builds.status", "builds.reason", "builds.settings"])
          .whereRef("builds.app_id", "=", "apps.id")
          .orderBy("builds.number", "desc")
          .limit(1)
          .as("latest"),
      (on) => on.onTrue(),
    )
    .select(["apps.id", "apps.project_id", "apps.name", "apps.request", "releases.id as release_id"])
    .select(["releases.build_id", "releases.settings", "latest.status", "latest.reason"])
    .select("latest.settings as latest_settings");
  if (!selection.everything) {
    const { appIds, buildIds } = selection;
    query = query.where((where) =>
      where.or([
        where("apps.id", "=", where.fn.any(where.val([...appIds]))),
        where.exists(
          where
            .selectFrom("builds as named")
            .select("named.id")
            .whereRef("named.app_id", "=", "apps.id")
            .where("named.id", "=", where.fn.any(where.val([...buildIds]))),
        ),
      ]),
    );
  }
  return (await query.execute()).map(toRoute);
}

type Row = {
  readonly id: AppId;
  readonly project_id: ProjectId;
  readonly name: string;
  readonly request: unknown;
  readonly release_id: ReleaseId | null;
  readonly build_id: BuildId | null;
  readonly settings: unknown;
  readonly status: BuildsTable["status"] | null;
  readonly reason: string | null;
  readonly latest_settings: unknown;
};

function toRoute(row: Row): Route {
  const { release_id: releaseId, build_id: buildId } = row;
  // What this platform stored itself is of the form that it stored.
  const settings = row.settings as AppSettings | null;
  const latest = row.latest_settings as AppSettings | null;
  const request = row.request as { readonly disableAuth?: unknown };
  const live =
    releaseId === null || buildId === null || settings === null
      ? null
      : Object.freeze({ releaseId, buildId, settings });
  return Object.freeze({
    appId: row.id,
    projectId: row.project_id,
    appName: row.name,
    disableAuth: settings?.disableAuth ?? latest?.disableAuth ?? request.disableAuth === true,
    live,
    latestBuild: row.status === null ? null : Object.freeze({ status: row.status, reason: row.reason }),
  });
}
