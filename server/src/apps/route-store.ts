// Queries of the routing table: each app with its live release and its latest build, in one row.
import type { AppId, BuildId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { appsWithBuilds } from "./app-store.ts";

/**
 * One app with its live release (`release_id` to `base_settings`), its latest build, and its latest
 * roll-out (`share`, `step_ends_at`). The columns `next_id` to `next_base_settings` are the release
 * of that roll-out while it is under way. `refused_id` is the release that the latest roll-out took
 * back because it was worse.
 */
export type RouteRow = Awaited<ReturnType<typeof readRoutes>>[number];

/**
 * Selects the apps to read: those with these ids, and those that have these builds. `everything`
 * selects all apps, whatever ids are given.
 */
export type RouteSelection = {
  readonly everything: boolean;
  readonly appIds: readonly AppId[];
  readonly buildIds: readonly BuildId[];
};

/** Reads the routes of the selected apps that are not deleted. No order, no locks. */
export async function readRoutes(db: Db, selection: RouteSelection) {
  let query = appsWithBuilds(db)
    .select([
      "apps.id",
      "apps.project_id",
      "apps.name",
      "apps.restarts",
      "apps.stopped_at",
      "apps.request",
    ])
    .select("releases.id as release_id")
    .select([
      "releases.build_id",
      "releases.settings",
      "releases.origins",
      "releases.base_settings",
    ])
    .leftJoin("roll_outs", "roll_outs.app_id", "apps.id")
    .leftJoin("releases as next", (join) =>
      join.onRef("next.id", "=", "roll_outs.release_id").on("roll_outs.ended_at", "is", null),
    )
    .select([
      "roll_outs.share",
      "roll_outs.step_ends_at",
      "next.id as next_id",
      "next.build_id as next_build_id",
    ])
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
