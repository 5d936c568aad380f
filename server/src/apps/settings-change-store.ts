// Queries of changes of an app's settings.
import { sql } from "kysely";
import type { AppId, AppKey, ReleaseId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import type { ChangeInput } from "./settings-change.ts";

/** The part of an app that a change of its settings depends on. */
export type ChangeableApp = Pick<
  ChangeInput,
  "name" | "request" | "configToml" | "dockerAuthSealed" | "isBuilding"
> & {
  /**
   * The release that is being rolled out, or else the live one, with its settings in stored form.
   */
  readonly release: {
    readonly id: ReleaseId;
    readonly commit_sha: string | null;
    readonly upload_id: string | null;
    readonly settings: unknown;
    readonly origins: unknown;
    readonly base_settings: unknown;
  } | null;
};

/** In a query of `apps`: the app's release that is being rolled out, or else its live release. */
const newestServed = sql<ReleaseId>`coalesce(
  (select release_id from roll_outs where roll_outs.app_id = apps.id and ended_at is null), apps.live_release_id)`;

/**
 * The id of the release that is being rolled out, or else of the live one; null: no release takes
 * calls. No locks.
 */
export async function readNewestServed(db: Db, appId: AppId): Promise<ReleaseId | null> {
  const row = await db
    .selectFrom("apps")
    .select(newestServed.as("id"))
    .where("id", "=", appId)
    .executeTakeFirst();
  return row?.id ?? null;
}

/**
 * Reads an app for a change of its settings; undefined when the project has no such app, or it is
 * being deleted. No locks.
 */
export async function readChangeable(
  db: Db,
  { projectId, appId }: AppKey,
): Promise<ChangeableApp | undefined> {
  const row = await db
    .selectFrom("apps")
    .leftJoin("releases", (join) => join.on("releases.id", "=", newestServed))
    .leftJoin("builds as maker", "maker.id", "releases.build_id")
    .select([
      "apps.name",
      "apps.request",
      "apps.config_toml",
      "apps.docker_auth_sealed",
      "releases.id",
    ])
    .select([
      "releases.commit_sha",
      "releases.settings",
      "releases.origins",
      "releases.base_settings",
    ])
    .select("maker.upload_id")
    .select(
      sql<boolean>`exists (select from builds where app_id = apps.id and ended_at is null)`.as(
        "is_building",
      ),
    )
    .where("apps.id", "=", appId)
    .where("apps.project_id", "=", projectId)
    .where("apps.deleting_at", "is", null)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const { id, commit_sha, upload_id, settings, origins, base_settings } = row;
  return {
    name: row.name,
    request: row.request as Readonly<Record<string, unknown>>,
    configToml: row.config_toml,
    dockerAuthSealed: row.docker_auth_sealed,
    release: id === null ? null : { id, commit_sha, upload_id, settings, origins, base_settings },
    isBuilding: row.is_building,
  };
}

/**
 * Writes an app's settings; an undefined `dockerAuthSealed` leaves the stored value. The caller
 * holds the lock on the app's row.
 */
export async function writeSettings(
  tx: Tx,
  appId: AppId,
  settings: {
    readonly request: Readonly<Record<string, unknown>>;
    readonly configToml: string | null;
    readonly dockerAuthSealed: string | null | undefined;
  },
): Promise<void> {
  const { dockerAuthSealed } = settings;
  await tx
    .updateTable("apps")
    .set({
      request: toJson(settings.request),
      config_toml: settings.configToml,
      ...(dockerAuthSealed === undefined ? {} : { docker_auth_sealed: dockerAuthSealed }),
      updated_at: sql<Date>`clock_timestamp()`,
    })
    .where("id", "=", appId)
    .execute();
}

/**
 * Forgets that push events have arrived: the branch is polled again until the next event arrives.
 */
export async function forgetHookEvents(tx: Tx, appId: AppId): Promise<void> {
  await tx
    .updateTable("git_hooks")
    .set({ received_at: null })
    .where("app_id", "=", appId)
    .execute();
}
