// Queries of the routing table: each app with its live release and its latest build, in one row.
import type { AppId, BuildId, ProjectId, ReleaseId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { BuildsTable } from "#store/tables.ts";
import { appsWithBuilds } from "./app-store.ts";

/** One app with its live release (`release_id` to `base_settings`) and its latest build. */
export type RouteRow = {
  readonly id: AppId;
  readonly project_id: ProjectId;
  readonly name: string;
  readonly restarts: number;
  readonly stopped_at: Date | null;
  readonly request: unknown;
  readonly release_id: ReleaseId | null;
  readonly build_id: BuildId | null;
  readonly settings: unknown;
  readonly origins: unknown;
  readonly base_settings: unknown;
  readonly status: BuildsTable["status"] | null;
  readonly reason: string | null;
  readonly latest_settings: unknown;
  /** The roll-out under way; `next_` is of its release. */
  readonly share: number | null;
  readonly step_ends_at: Date | null;
  readonly next_id: ReleaseId | null;
  readonly next_build_id: BuildId | null;
  readonly next_settings: unknown;
  readonly next_origins: unknown;
  readonly next_base_settings: unknown;
  /** The release that the latest roll-out took back because it was worse. */
  readonly refused_id: ReleaseId | null;
};

/** Selects the apps to read; `everything` overrides the rest. */
export type RouteSelection = {
  readonly everything: boolean;
  readonly appIds: readonly AppId[];
  readonly buildIds: readonly BuildId[];
};

/** Reads the routes of all apps, or of those selected by app or build id. No order, no locks. */
export async function readRoutes(db: Db, selection: RouteSelection): Promise<RouteRow[]> {
  let query = appsWithBuilds(db)
    .select(["apps.id", "apps.project_id", "apps.name", "apps.restarts", "apps.stopped_at", "apps.request"])
    .select("releases.id as release_id")
    .select(["releases.build_id", "releases.settings", "releases.origins", "releases.base_settings"])
    .leftJoin("roll_outs", "roll_outs.app_id", "apps.id")
    .leftJoin("releases as next", (join) =>
      join.onRef("next.id", "=", "roll_outs.release_id").on("roll_outs.ended_at", "is", null),
    )
    .select(["roll_outs.share", "roll_outs.step_ends_at", "next.id as next_id", "next.build_id as next_build_id"])
    .select(["next.settings as next_settings", "next.origins as next_origins"])
    .select("next.base_settings as next_base_settings")
    .select((select) =>
      select
        .case()
        .when("roll_outs.is_worse", "=", true)
        .then(select.ref("roll_outs.release_id"))
        .end()
        .as("refused_id"),
    )
    .select(["latest.status", "latest.reason"])
    .select("latest.settings as latest_settings")
    .where("apps.deleting_at", "is", null);
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
  return await query.execute();
}
