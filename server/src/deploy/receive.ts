// Accepts builds, and requests to cancel them. The API calls it inside its own transactions, so
// that the build, the related change and the audit row commit or roll back together; `queue.ts`
// does the work.
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { BuildState } from "@slipway/contract/words.ts";
import { lockAppForChange } from "#apps/app-store.ts";
import type {
  BuildRef,
  NewBuild,
  NewSettings,
  NewUpload,
  ReceivedBuild,
} from "#apps/build-receiver.ts";
import type { Actor } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { newBuildId, type AppId, type BuildId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { notify } from "#store/notify.ts";
import { isEnd, buildStatesBefore } from "./build-states.ts";
import { copyRelease, failReleases } from "./release-store.ts";
import { commitText } from "./source.ts";
import { isUploadKept, latestUpload, uploadHours } from "./upload-store.ts";

/** Maximum number of unfinished builds of one app; they wait for each other. */
const unfinishedMax = 50;

/**
 * Adds a build to the queue, status `pending`. A push ends the builds of earlier pushes that are
 * still pending. Throws `Fault("not_found")` when the app does not exist, `Fault("rate_limited")`
 * when too many of its builds are unfinished, `Fault("conflict")` for an app without repository and
 * files. Locks the app's row.
 */
export async function receiveBuild(tx: Tx, build: NewBuild): Promise<ReceivedBuild> {
  const app = await lockAppForChange(tx, build);
  const hasRepository = (app.request as { readonly gitRepo?: string }).gitRepo !== undefined;
  const upload = build.upload ?? (hasRepository ? null : await uploadFor(tx, build));
  return await insertBuild(tx, {
    build,
    request: app.request,
    configToml: app.config_toml,
    settings: null,
    upload,
    commit: build.commit,
    branch: build.branch,
    message: build.message,
    author: build.author,
  });
}

/** The files of an app without a repository. */
async function uploadFor(tx: Tx, build: NewBuild): Promise<string> {
  const given = givenOf(build);
  if (given !== null) {
    throw new Fault(
      "invalid",
      `${given} is given, but the app has no repository: its files are uploaded.`,
    );
  }
  const upload = await latestUpload(tx, build.appId);
  if (upload !== undefined) return upload;
  throw new Fault(
    "conflict",
    "The app has no repository, and no files of it were uploaded yet (POST …/apps).",
  );
}

/** The field that asks for something of a repository; null: there is none. */
function givenOf({ commit, branch }: NewBuild): "commit" | "branch" | null {
  if (commit !== undefined) return "commit";
  return branch === undefined ? null : "branch";
}

/**
 * Adds a build whose files are still to be uploaded; it starts when they are there. Builds of the
 * app that wait for theirs end. Throws like `receiveBuild`. Locks the app's row.
 */
export async function receiveUpload(
  tx: Tx,
  { keyHash, request, configToml, ...build }: NewUpload,
): Promise<ReceivedBuild & { readonly uploadId: string }> {
  const { projectId, appId } = build;
  await lockAppForChange(tx, build);
  const uploadId = randomUUID();
  await tx
    .insertInto("uploads")
    .values({ id: uploadId, project_id: projectId, app_id: appId, key_hash: keyHash })
    .execute();
  const received = await insertBuild(tx, {
    build,
    request,
    configToml,
    settings: null,
    upload: uploadId,
    awaitsUpload: true,
  });
  return { ...received, uploadId };
}

/**
 * Adds a build that tries a release of the same artifact with other settings, and the release. One
 * that is still pending ends. Throws like `receiveBuild`. Locks the app's row.
 */
export async function receiveSettings(
  tx: Tx,
  given: NewSettings,
): Promise<ReceivedBuild & { readonly releaseNumber: number }> {
  const { projectId, appId, by, release, settings } = given;
  const app = await lockAppForChange(tx, given);
  const built = await insertBuild(tx, {
    build: { projectId, appId, cause: "settings", by },
    request: app.request,
    configToml: app.config_toml,
    settings: null,
    keepsArtifact: true,
  });
  const { number } = await copyRelease(tx, { buildId: built.buildId, from: release, settings });
  return { ...built, releaseNumber: number };
}

/**
 * Adds a build of the same source: the recorded commit and the stored settings of an earlier build
 * as far as it got; for the rest, its original request. Throws `Fault("not_found")` when the build
 * does not belong to the app.
 */
export async function rebuild(
  tx: Tx,
  given: BuildRef & { readonly by: Actor },
): Promise<ReceivedBuild> {
  await lockAppForChange(tx, given);
  const earlier = await lockBuild(tx, given);
  if (earlier.upload_id !== null && !(await isUploadKept(tx, earlier.upload_id))) {
    throw new Fault(
      "conflict",
      "The files of this build were removed, since newer ones were uploaded: upload them again.",
    );
  }
  return await insertBuild(tx, {
    upload: earlier.upload_id,
    build: { projectId: given.projectId, appId: given.appId, cause: "rebuild", by: given.by },
    request: earlier.request,
    configToml: earlier.config_toml,
    settings: earlier.settings as object | null,
    commit: earlier.commit_sha,
    branch: earlier.branch,
    message: earlier.commit_message,
    author: earlier.commit_author,
  });
}

/**
 * Requests cancellation of a build. One that nobody works on is `cancelled` at once; otherwise its
 * worker ends it within about a second. Throws `Fault("not_found")`, or `Fault("conflict")` for a
 * build that has ended. Locks the build's row.
 */
export async function requestCancel(
  tx: Tx,
  given: BuildRef,
): Promise<{ readonly status: BuildState }> {
  const build = await lockBuild(tx, given);
  if (isEnd(build.status)) {
    throw new Fault(
      "conflict",
      `The build has already ended, with status ${build.status}; only a running build can be cancelled.`,
    );
  }
  return { status: (await askToEnd(tx, given.buildId, null)) ? "cancelled" : build.status };
}

/** Throws `Fault("not_found")`. */
async function lockBuild(tx: Tx, { projectId, appId, buildId }: BuildRef) {
  const ofApp = tx
    .selectFrom("builds")
    .selectAll()
    .where("app_id", "=", appId)
    .where("project_id", "=", projectId);
  const build = await ofApp.where("id", "=", buildId).forUpdate().executeTakeFirst();
  if (build === undefined)
    throw new Fault("not_found", `There is no build ${buildId} of this app.`);
  return build;
}

/**
 * Ends a pending build at once, and returns true; asks the worker of another one. The caller holds
 * the lock on its row.
 */
async function askToEnd(tx: Tx, buildId: BuildId, reason: string | null): Promise<boolean> {
  const cancelled = await tx
    .updateTable("builds")
    .set({
      status: "cancelled",
      reason: reason ?? "Cancelled before it started.",
      cancel_requested_at: sql<Date>`clock_timestamp()`,
      ended_at: sql<Date>`clock_timestamp()`,
      updated_at: sql<Date>`clock_timestamp()`,
    })
    .where("id", "=", buildId)
    .where("status", "=", "pending")
    .returning("status")
    .executeTakeFirst();
  if (cancelled === undefined) {
    await tx
      .updateTable("builds")
      .set({
        cancel_requested_at: sql<Date>`coalesce(cancel_requested_at, clock_timestamp())`,
        cancel_reason: reason,
        updated_at: sql<Date>`clock_timestamp()`,
      })
      .where("id", "=", buildId)
      .where("status", "in", buildStatesBefore("cancelled"))
      .execute();
  } else await failReleases(tx, [buildId]);
  await notify(tx, "builds", buildId);
  return cancelled !== undefined;
}

/**
 * Ends an app's unfinished builds of earlier pushes: those that nobody works on at once, running
 * ones within about a second. The caller holds the lock on the app's row. `reason` is a sentence.
 */
export async function endPushes(
  tx: Tx,
  given: { readonly appId: AppId; readonly reason: string; readonly isRunningSuperseded: boolean },
): Promise<void> {
  const states = given.isRunningSuperseded
    ? buildStatesBefore("cancelled")
    : (["pending"] as const);
  await endBuilds(tx, { ...given, cause: "push", states });
}

/**
 * Ends unfinished builds of a cause that are in one of the states. The caller holds the lock on the
 * app's row.
 */
async function endBuilds(
  tx: Tx,
  given: {
    readonly appId: AppId;
    readonly cause: NewBuild["cause"];
    readonly states: readonly BuildState[];
    readonly reason: string;
    /** Only those that build nothing. */
    readonly isArtifactKept?: boolean;
  },
): Promise<void> {
  let builds = tx
    .selectFrom("builds")
    .select("id")
    .where("app_id", "=", given.appId)
    .where("cause", "=", given.cause)
    .where("ended_at", "is", null)
    .where("cancel_requested_at", "is", null)
    .where("status", "in", given.states);
  if (given.isArtifactKept === true) builds = builds.where("keeps_artifact", "=", true);
  for (const { id } of await builds.orderBy("number").forUpdate().execute())
    await askToEnd(tx, id, given.reason);
}

type CommitColumn = "commit" | "branch" | "message" | "author";
type InsertedBuild = Readonly<Partial<Record<CommitColumn, string | null | undefined>>> & {
  readonly build: Omit<NewBuild, CommitColumn>;
  readonly request: unknown;
  readonly configToml: string | null;
  readonly settings: object | null;
  readonly keepsArtifact?: boolean;
  /** The id of the upload with the files; null: they come from the repository. */
  readonly upload?: string | null;
  readonly awaitsUpload?: boolean;
};

/** The caller holds the lock on the app's row, which orders the numbers. */
async function insertBuild(tx: Tx, given: InsertedBuild): Promise<ReceivedBuild> {
  const { projectId, appId, cause, by, isRunningSuperseded = false } = given.build;
  const latest = await tx
    .selectFrom("builds")
    .select((build) => build.fn.coalesce(build.fn.max("number"), sql<number>`0`).as("number"))
    .where("app_id", "=", appId)
    .executeTakeFirstOrThrow();
  const number = latest.number + 1;
  if (cause === "push") {
    const reason = `Build ${number} of a newer commit took its place.`;
    await endPushes(tx, { appId, reason, isRunningSuperseded });
  }
  if (cause === "settings") {
    // A build has all settings, a release of the same artifact not those of an earlier change that
    // needs a build.
    const reason = `Build ${number} of later settings took its place.`;
    const isArtifactKept = given.keepsArtifact === true;
    await endBuilds(tx, { appId, cause, states: ["pending"], reason, isArtifactKept });
  }
  const { awaitsUpload = false } = given;
  if (awaitsUpload)
    await endWaiting(tx, appId, `Build ${number} took its place before its files had arrived.`);
  const waitsFor = await reasonToWait(tx, appId);
  const reason = awaitsUpload
    ? `It waits for its files, for up to ${uploadHours} hours.`
    : waitsFor;
  const buildId = newBuildId();
  await tx
    .insertInto("builds")
    .values({
      id: buildId,
      project_id: projectId,
      app_id: appId,
      number,
      cause,
      status: "pending",
      reason,
      request: toJson(given.request as object),
      config_toml: given.configToml,
      settings: given.settings === null ? null : toJson(given.settings),
      commit_sha: given.commit,
      commit_message: given.message && commitText(given.message, "message"),
      commit_author: given.author && commitText(given.author, "author"),
      branch: given.branch,
      upload_id: given.upload ?? null,
      awaits_upload: awaitsUpload,
      keeps_artifact: given.keepsArtifact ?? false,
      created_by: toJson(by),
      created_at: sql<Date>`clock_timestamp()`,
    })
    .execute();
  await notify(tx, "builds", buildId);
  return { buildId, number, status: "pending" };
}

/**
 * Ends the builds of an app that wait for their files. The caller holds the lock on the app's row.
 */
async function endWaiting(tx: Tx, appId: AppId, reason: string): Promise<void> {
  const waiting = tx
    .selectFrom("builds")
    .select("id")
    .where("app_id", "=", appId)
    .where("awaits_upload", "=", true);
  const builds = await waiting.where("ended_at", "is", null).forUpdate().execute();
  for (const { id } of builds) await askToEnd(tx, id, reason);
}

/**
 * What a build of the app waits for, if others are unfinished: builds of one app run one after the
 * other.
 */
async function reasonToWait(tx: Tx, appId: AppId): Promise<string | null> {
  const unfinished = await tx
    .selectFrom("builds")
    .select(["id", "number"])
    .where("app_id", "=", appId)
    .where("ended_at", "is", null)
    .where("awaits_upload", "=", false)
    .orderBy("number")
    .execute();
  const [first] = unfinished;
  if (unfinished.length < unfinishedMax) {
    return first === undefined
      ? null
      : `It waits until build ${first.number} (${first.id}) has ended; DELETE …/builds/{build_id} cancels that one.`;
  }
  throw new Fault(
    "rate_limited",
    `The app already has ${unfinished.length} unfinished builds; wait for one to end, or cancel some.`,
    { retryAfterSeconds: 30 },
  );
}
