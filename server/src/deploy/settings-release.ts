// The first stage of a build that builds nothing: makes a release with the app's present settings,
// and with the artifact of the release that takes the calls now, which may be another release than
// at the time of the request. Called by `build.ts`.
import type { RawBuilder } from "kysely";
import { lockApp } from "#apps/app-store.ts";
import { readChangeable } from "#apps/settings-change-store.ts";
import { knownProviders, settingsOfRelease } from "#apps/settings-change.ts";
import { resolveFiles } from "#apps/settings.ts";
import { readReleaseSettings } from "#apps/stored-settings.ts";
import { Fault } from "#lib/fault.ts";
import type { ReleaseId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { moveBuild, type BuildRecord } from "./build-store.ts";
import { copyRelease } from "./release-store.ts";
import type { CandidateRelease } from "./trial.ts";

/** The release to try, and its number. */
export type SettingsRelease = {
  readonly candidate: CandidateRelease;
  readonly number: number;
  /** The release that the candidate is to replace, and whose artifact it has. */
  readonly over: ReleaseId;
};

/**
 * Makes the release, and moves the build to `initializing`. Returns null when the build no longer
 * belongs to the caller, or was cancelled. Throws `Fault("invalid" | "not_usable")` when the
 * settings do not fit the release that takes the calls now.
 */
export async function makeSettingsRelease(
  db: Db,
  build: {
    readonly record: BuildRecord;
    readonly held: RawBuilder<boolean>;
    readonly providers: readonly string[];
  },
): Promise<SettingsRelease | null> {
  const { buildId, projectId, appId } = build.record;
  return await db.transaction().execute(async (tx) => {
    await lockApp(tx, appId);
    const app = await readChangeable(tx, { projectId, appId });
    const move = { buildId, held: build.held, to: "initializing", reason: null } as const;
    if (!(await moveBuild(tx, move))) return null;
    if (app === undefined || app.release === null)
      throw new Fault("not_usable", "No release of the app takes calls any more.");
    const release = readReleaseSettings(app.release);
    if (release instanceof Fault) throw release;
    const providers = knownProviders(build.providers, app.request);
    const desired = resolveFiles({
      body: app.request,
      files: release.files,
      isComplete: true,
      providers,
    });
    const settings = settingsOfRelease(release, desired);
    const { releaseId, number, artifact } = await copyRelease(tx, {
      buildId,
      from: app.release.id,
      settings,
    });
    const candidate = {
      releaseId,
      projectId,
      appId,
      buildId,
      settings: settings.settings,
      artifact,
    };
    return { candidate, number, over: app.release.id };
  });
}
