// Lets a release that has proved itself take the app's traffic: release, app, build, the last line of its log and the
// audit row in one transaction, so that a kill at any moment leaves the old one or the new one, never half of each.
import type { RawBuilder } from "kysely";
import { platformActor } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";
import { addBuildLines } from "#logs/build-log-store.ts";
import type { Db } from "#store/database.ts";
import { makeLive, moveBuild } from "./build-store.ts";
import type { CandidateRelease } from "./trial.ts";

/** Ends the build's log and the build; all its lines must be stored. False when the build is not the caller's any more or was cancelled meanwhile: then nothing has changed. Resolves when the proxy of this process knows. */
export async function promote(
  parts: { readonly db: Db; readonly clock: Clock; readonly refreshRoute: (appId: AppId) => Promise<void> },
  given: { readonly release: CandidateRelease; readonly held: RawBuilder<boolean> },
): Promise<boolean> {
  const { release, held } = given;
  const { buildId, appId, projectId, releaseId } = release;
  const isPromoted = await parts.db.transaction().execute(async (tx) => {
    if (!(await moveBuild(tx, { buildId, held, to: "success", reason: null }))) return false;
    await makeLive(tx, appId, releaseId);
    // Who reads it may call the app at once.
    const at = parts.clock.now();
    await addBuildLines(tx, buildId, [{ at, stage: "release", stream: "platform", line: "App started successfully!" }]);
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
