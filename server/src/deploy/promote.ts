// Promotes a release that passed its trial, at once or in the steps of a roll-out: release, app,
// build, the last line of its log and the audit row change in one transaction, so that a kill at
// any moment leaves either the old release or the new one live.
import type { RawBuilder } from "kysely";
import { recordOfApp } from "#apps/app-audit.ts";
import { lockApp, resumeAutoDeploy } from "#apps/app-store.ts";
import { beginRelease } from "#apps/roll-out-store.ts";
import { platformActor } from "#audit/record.ts";
import { readNewestServed } from "#apps/settings-change-store.ts";
import { liveSettings } from "#apps/settings.ts";
import { readReleaseSettings } from "#apps/stored-settings.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, ReleaseId } from "#lib/ids.ts";
import { addBuildLines } from "#logs/build-log-store.ts";
import type { Db, Tx } from "#store/database.ts";
import { BuildStopped } from "./build-ending.ts";
import { moveBuild } from "./build-store.ts";
import { readReleaseWithBuild } from "./release-store.ts";
import type { CandidateRelease } from "./trial.ts";

/**
 * Promotes the release, and ends the build and its log, whose earlier lines must be stored. Returns
 * false, without any change, when the caller no longer owns the build or it was cancelled
 * meanwhile. Resolves when the proxy of this process knows the release. Throws `BuildStopped` when
 * another release has replaced the release `over`.
 */
export async function promote(
  parts: {
    readonly db: Db;
    readonly clock: Clock;
    readonly refreshRoute: (appId: AppId) => Promise<void>;
  },
  candidate: {
    readonly release: CandidateRelease;
    readonly held: RawBuilder<boolean>;
    /**
     * The release whose artifact the candidate shares, with other settings; undefined: it has an
     * artifact of its own.
     */
    readonly over?: ReleaseId | undefined;
  },
): Promise<boolean> {
  const { release, held } = candidate;
  const { buildId, appId, projectId, releaseId } = release;
  const isPromoted = await parts.db.transaction().execute(async (tx) => {
    const app = await lockApp(tx, appId);
    if (candidate.over !== undefined && (await readNewestServed(tx, appId)) !== candidate.over) {
      throw new BuildStopped("cancelled", replacedText);
    }
    if (!(await moveBuild(tx, { buildId, held, to: "success", reason: null }))) return false;
    const at = parts.clock.now();
    const isStopped = app !== undefined && app.stopped_at !== null;
    const { durationSeconds, cause, askedAt } = await readRequest(tx, releaseId, app?.request);
    const pausedAt = app?.auto_deploy_paused_at ?? null;
    // A deployment by a person ends the pause of an earlier rollback.
    const isByHand = cause === "deploy" || cause === "rebuild";
    if (isByHand && pausedAt !== null && askedAt > pausedAt) await resumeAutoDeploy(tx, appId);
    const liveReleaseId = app?.live_release_id ?? null;
    await beginRelease(tx, {
      appId,
      releaseId,
      liveReleaseId,
      // No calls have to move from one release to the other while the app is stopped.
      durationSeconds: isStopped ? 0 : durationSeconds,
      nowMs: at,
    });
    const line = isStopped ? "App deployed; it is stopped." : "App started successfully!";
    // The line is stored with the change: its reader may call the app at once. With the log level
    // ERROR, the platform logs only its errors.
    const lines =
      release.settings.logLevel === "ERROR"
        ? []
        : [{ at, stage: "release", stream: "platform", line } as const];
    await addBuildLines(tx, buildId, lines);
    const changes = { releaseId: { new: releaseId }, buildId: { new: buildId } };
    const by = { actor: platformActor };
    await recordOfApp(tx, {
      projectId,
      appId,
      name: release.settings.name,
      action: "app.promote",
      by,
      changes,
    });
    return true;
  });
  if (isPromoted) await parts.refreshRoute(appId);
  return isPromoted;
}

/**
 * Why and when the release was asked for, and the duration of its roll-out, which the app's
 * `request` may have changed since.
 */
async function readRequest(tx: Tx, releaseId: ReleaseId, request: unknown) {
  const row = await readReleaseWithBuild(tx, releaseId);
  const release = readReleaseSettings(row);
  if (release instanceof Fault) throw release;
  const { settings } = liveSettings(release, (request ?? {}) as Readonly<Record<string, unknown>>);
  return {
    durationSeconds: settings.rollOutDurationSeconds,
    cause: row.cause,
    askedAt: row.askedAt,
  };
}

const replacedText =
  "Another release took the calls in the meantime, and keeps them; to roll these settings out, deploy again.";
