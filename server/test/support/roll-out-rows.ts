// A roll-out as rows, for tests that need one without deploying anything.
import { beginRelease } from "#apps/roll-out-store.ts";
import { makeLive } from "#apps/release-store.ts";
import { newReleaseId, type AppId, type ReleaseId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { settingsWith } from "./app-settings.ts";

const day = 86_400;

/**
 * Makes two releases of the app's latest build; the first is live, the second is rolled out over a
 * day.
 */
export async function insertRollOut(
  db: Db,
  appId: AppId,
): Promise<{ readonly old: ReleaseId; readonly next: ReleaseId }> {
  const build = await db
    .selectFrom("builds")
    .select(["id", "project_id", "cause"])
    .where("app_id", "=", appId)
    .orderBy("number", "desc")
    .executeTakeFirstOrThrow();
  const { max } = await db
    .selectFrom("releases")
    .select((select) => select.fn.coalesce(select.fn.max("number"), select.val(0)).as("max"))
    .where("app_id", "=", appId)
    .executeTakeFirstOrThrow();
  const old = newReleaseId();
  const next = newReleaseId();
  const common = {
    app_id: appId,
    project_id: build.project_id,
    build_id: build.id,
    cause: build.cause,
  };
  const content = {
    settings: toJson(settingsWith({ name: "walked" })),
    artifact: toJson({ kind: "none" }),
  };
  await db
    .insertInto("releases")
    .values(
      [old, next].map((id, index) => ({
        id,
        number: max + index + 1,
        state: "starting",
        ...common,
        ...content,
      })),
    )
    .execute();
  await db.transaction().execute(async (tx) => {
    const endOfOther = { state: "replaced", reason: "A newer release took its place." } as const;
    await makeLive(tx, { appId, releaseId: old, endOfOther });
    const given = {
      appId,
      releaseId: next,
      liveReleaseId: old,
      durationSeconds: day,
      nowMs: Date.now(),
    };
    await beginRelease(tx, given);
  });
  return { old, next };
}
