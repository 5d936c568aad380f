// Releases for the API: lists them, rolls back to one, and resumes automatic deploys.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { By } from "#audit/record.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import { type AppId, type AppKey, shownAppId } from "#lib/ids.ts";
import { numberTokens, pageOf, type Page } from "#lib/page-token.ts";
import type { Db, Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { recordOfApp } from "./app-audit.ts";
import * as store from "./app-store.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import * as releases from "./release-store.ts";
import { lockRollOut, takeBackRollOut } from "./roll-out-store.ts";
import { requestedSource } from "./settings.ts";
import { releaseSettings } from "./stored-settings.ts";

const tokens = numberTokens("releases");

/**
 * Tells whether an artifact still exists: somebody may have removed it without the platform. May
 * ask the backend.
 */
export type IsThere = (artifact: releases.Built) => Promise<boolean>;

/** Releases of apps. */
export class Releases {
  readonly #db: Db;
  readonly #builds: Pick<BuildReceiver, "endPushes">;
  readonly #isThere: IsThere;

  constructor(options: {
    readonly db: Db;
    readonly builds: Pick<BuildReceiver, "endPushes">;
    readonly isThere: IsThere;
  }) {
    this.#db = options.db;
    this.#builds = options.builds;
    this.#isThere = options.isThere;
  }

  /**
   * A page, newest first. Throws `Fault("not_found")`, or `Fault("invalid")` for a token of a
   * different list.
   */
  async page(
    { projectId, appId }: AppKey,
    { pageSize, nextToken }: { readonly pageSize: number; readonly nextToken: string | null },
  ): Promise<Page<releases.ReleaseRow>> {
    if (!(await store.hasApp(this.#db, projectId, appId))) throw store.noSuchApp(appId);
    const before = tokens.read([appId], nextToken)?.number ?? null;
    const rows = await releases.readReleases(this.#db, { appId, before, limit: pageSize + 1 });
    return pageOf(rows, pageSize, (last) => tokens.make([appId], last));
  }

  /** One release. Throws `Fault("not_found" | "not_usable")`. */
  async get(
    { projectId, appId }: AppKey,
    number: number,
  ): Promise<releases.ReleaseRow & { readonly settings: AppSettings }> {
    if (!(await store.hasApp(this.#db, projectId, appId))) throw store.noSuchApp(appId);
    const row = await releases.readRelease(this.#db, appId, number);
    if (row === undefined) throw noSuchRelease(appId, number);
    return { ...row, settings: releaseSettings(row.settings) };
  }

  /**
   * Makes a release live again: by default the one before, or, during a roll-out, the one that is
   * still live. Pauses the automatic deploys of an app that has a repository, and ends builds of
   * pushes. Throws `Fault("not_found")`, or `Fault("conflict")` when the release cannot be started
   * or takes the calls already, or when another change of the live release came first.
   */
  async rollBack(
    app: AppKey,
    { number, by }: { readonly number: number | null; readonly by: By },
  ): Promise<releases.ReleaseRow> {
    // All this is read before the app is locked, since asking for the artifact may take a while.
    // When the lock is held, the transaction checks that the live release is still the same.
    const seen = await store.readLiveRelease(this.#db, app);
    const numberBefore = number ?? (await this.#earlierThan(app, seen?.number));
    const missingNumber = await this.#missingOf(app.appId, numberBefore);
    return await this.#db.transaction().execute(async (tx) => {
      const row = await store.lockAppForChange(tx, app);
      const current = await store.readLiveRelease(tx, app);
      if (seen === undefined || current?.id !== seen.id || current.rolling !== seen.rolling)
        throw changedMeanwhile();
      const rollOut = await lockRollOut(tx, app);
      // During a roll-out, a rollback to the live release takes the roll-out back. A rollback
      // without a number does the same.
      const isToLive = number === null || number === seen.number;
      const isTakenBack = rollOut !== null && rollOut !== undefined && isToLive;
      const target = isTakenBack
        ? must(await releases.readRelease(tx, app.appId, seen.number), "the live release is stored")
        : await findTarget(tx, { appId: app.appId, live: seen.number, number });
      if (!isTakenBack && target.number === missingNumber)
        throw new Fault(
          "conflict",
          `The app cannot go back to v${missingNumber}: what was built for it was removed${adviceOf(target)}.`,
        );
      const from = isTakenBack ? rollOut.number : seen.number;
      const reason = `The app was rolled back from v${from} to v${target.number}.`;
      const endOfOther = { state: "taken_back", reason } as const;
      if (isTakenBack) await takeBackRollOut(tx, rollOut, { reason, isWorse: false });
      else await releases.makeLive(tx, { appId: app.appId, releaseId: target.id, endOfOther });
      // Without a repository nothing is deployed automatically.
      const { gitRepo } = requestedSource(row.request as Readonly<Record<string, unknown>>);
      if (gitRepo !== null) await store.pauseAutoDeploy(tx, app.appId, reason);
      await this.#builds.endPushes(tx, { appId: app.appId, reason, isRunningSuperseded: true });
      const changes = { release: { old: from, new: target.number } };
      await recordOfApp(tx, { ...app, name: row.name, action: "app.rollback", by, changes });
      // The release is returned as its row will be after the commit.
      return { ...target, state: "live", end_reason: null, ended_at: null, share: null };
    });
  }

  /**
   * The number of the release to go back to by default, with `number` being that of the live
   * release, if one is live. Null: there is none to go back to.
   */
  async #earlierThan({ appId }: AppKey, number: number | undefined): Promise<number | null> {
    if (number === undefined) return null;
    return await this.#db
      .transaction()
      .execute(
        async (tx) =>
          (await releases.readEarlierRelease(tx, { appId, before: number }))?.number ?? null,
      );
  }

  /**
   * The release's number when its artifact is gone, else null. Called before the app is locked,
   * since the backend may take a while.
   */
  async #missingOf(appId: AppId, number: number | null): Promise<number | null> {
    const artifact =
      number === null ? undefined : await releases.readArtifact(this.#db, appId, number);
    return artifact === undefined || (await this.#isThere(artifact)) ? null : number;
  }

  /**
   * Lets pushes be deployed again. Throws `Fault("not_found")`, or `Fault("conflict")` when they
   * are not paused.
   */
  async resumeDeploys(app: AppKey, by: By): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      const row = await store.lockAppForChange(tx, app);
      if (!(await store.resumeAutoDeploy(tx, app.appId))) {
        throw new Fault(
          "conflict",
          "Automatic deploys of the app are not paused, so there is nothing to resume.",
        );
      }
      const changes = { autoDeployPausedReason: { old: row.auto_deploy_paused_reason, new: null } };
      await recordOfApp(tx, { ...app, name: row.name, action: "app.resume_deploys", by, changes });
      await notify(tx, "apps", app.appId);
    });
  }
}

/** The release to go back to, with its row locked. */
async function findTarget(
  tx: Tx,
  {
    appId,
    live,
    number,
  }: { readonly appId: AppId; readonly live: number; readonly number: number | null },
): Promise<releases.ReleaseRow> {
  const target =
    number === null
      ? await releases.readEarlierRelease(tx, { appId, before: live })
      : await releases.readRelease(tx, appId, number, { isLocked: true });
  if (target === undefined && number !== null) throw noSuchRelease(appId, number);
  if (target === undefined) {
    throw new Fault("conflict", `There is no release before v${live} to roll back to.`);
  }
  const why = whyNotStartable(target, live);
  if (why !== null)
    throw new Fault("conflict", `The app cannot go back to v${target.number}: ${why}`);
  // Throws when this version cannot read the settings.
  releaseSettings(target.settings);
  return target;
}

/** Why the release cannot be made live, as the end of a sentence; null: it can. */
function whyNotStartable(release: releases.ReleaseRow, live: number): string | null {
  if (release.state === "rolling_out") return "it is being rolled out.";
  if (release.number === live) return "it takes the calls already.";
  if (release.promoted_at === null) {
    return release.state === "failed"
      ? `it never took calls. ${release.end_reason ?? ""}`
      : "it is still starting.";
  }
  if (release.collected_at === null) return null;
  return `its files are no longer kept (SLIPWAY_RELEASES_KEPT)${adviceOf(release)}.`;
}

function adviceOf({ commit_sha: commit }: releases.ReleaseRow): string {
  return commit === null ? "" : `; build its commit ${commit} instead`;
}

function changedMeanwhile(): Fault {
  return new Fault(
    "conflict",
    "The app has no live release, or another change replaced it just now: look at its releases.",
  );
}

function noSuchRelease(appId: AppId, number: number): Fault {
  return new Fault("not_found", `The app ${shownAppId(appId)} has no release v${number}.`);
}

/** The share of the app's new calls that a release gets, in percent. */
export function trafficOf({ state, share }: releases.ReleaseRow): number {
  if (state === "live") return 100 - (share ?? 0);
  return state === "rolling_out" ? (share ?? 0) : 0;
}
