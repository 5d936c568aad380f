// Lets a release that has proved itself take the app's traffic: release, app, build and audit row in one transaction, so
// that a kill at any moment leaves the old one or the new one, never half of each.
import type { RawBuilder } from "kysely";
import { platformActor } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import type { AppId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { makeLive, moveBuild } from "./build-store.ts";
import type { CandidateRelease } from "./trial.ts";

/** False when the build is not the caller's any more or was cancelled meanwhile: then nothing has changed. Resolves when the proxy of this process knows. */
export async function promote(
  parts: { readonly db: Db; readonly refreshRoute: (appId: AppId) => Promise<void> },
  given: { readonly release: CandidateRelease; readonly held: RawBuilder<boolean> },
): Promise<boolean> {
  const { release, held } = given;
  const { buildId, appId, projectId, releaseId } = release;
  const isPromoted = await parts.db.transaction().execute(async (tx) => {
    if (!(await moveBuild(tx, { buildId, held, to: "success", reason: null }))) return false;
    await makeLive(tx, appId, releaseId);
    await record(tx, {
      projectId,
      action: "app.promote",
      by: { actor: platformActor },
      resource: { type: "app", id: appId, name: release.settings.name },
      changes: { releaseId: { new: releaseId }, buildId: { new: buildId } },
    });
    return true;
  });
  if (isPromoted) await parts.refreshRoute(appId);
  return isPromoted;
}
