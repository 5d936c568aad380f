// Accepts builds. The API calls these functions inside its own transactions, so that the build, the
// related change and the audit row commit or roll back together; `queue.ts` does the work.
import { randomUUID } from "node:crypto";
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
import { newBuildId, type AppId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { endBuilds, endPushes, endWaiting } from "./end-builds.ts";
import * as store from "./received-builds-store.ts";
import { copyRelease } from "./release-store.ts";
import { commitText } from "./source.ts";
import { isUploadKept, latestUpload, uploadHours } from "./upload-store.ts";

/** Maximum number of unfinished builds of one app; they wait for each other. */
const unfinishedMax = 50;

/**
 * Adds a build to the queue, status `pending`. A push ends the builds of earlier pushes that are
 * still pending. Throws `Fault("not_found")` when the app does not exist, `Fault("rate_limited")`
 * when too many of its builds are unfinished, `Fault("conflict")` for an app without repository and
 * files, `Fault("invalid")` for a commit or a branch of an app without repository. Locks the app's
 * row.
 */
export async function receiveBuild(tx: Tx, build: NewBuild): Promise<ReceivedBuild> {
  const app = await lockAppForChange(tx, build);
  const hasRepository = (app.request as { readonly gitRepo?: string }).gitRepo !== undefined;
  let upload = build.upload ?? null;
  // Without a repository, the files are those of the given upload, or of the latest one.
  if (upload === null && !hasRepository) upload = await uploadFor(tx, build);
  return await addBuild(tx, {
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

/** Returns the id of the latest upload of an app without a repository. */
async function uploadFor(tx: Tx, build: NewBuild): Promise<string> {
  const field = repositoryField(build);
  if (field !== null) {
    throw new Fault(
      "invalid",
      `${field} is given, but the app has no repository: its files are uploaded.`,
    );
  }
  const upload = await latestUpload(tx, build.appId);
  if (upload !== undefined) return upload;
  throw new Fault(
    "conflict",
    "The app has no repository, and no files of it were uploaded yet (POST …/apps).",
  );
}

/** The field of the request that needs a repository; null: it has none. */
function repositoryField({ commit, branch }: NewBuild): "commit" | "branch" | null {
  if (commit !== undefined) return "commit";
  return branch === undefined ? null : "branch";
}

/**
 * Adds a build whose files are still to be uploaded; it starts when they are there. Earlier builds
 * of the app that still wait for their files end. Throws like `receiveBuild`. Locks the app's row.
 */
export async function receiveUpload(
  tx: Tx,
  { keyHash, request, configToml, ...build }: NewUpload,
): Promise<ReceivedBuild & { readonly uploadId: string }> {
  const { projectId, appId } = build;
  await lockAppForChange(tx, build);
  const uploadId = randomUUID();
  await store.insertCodeUpload(tx, { id: uploadId, projectId, appId, keyHash });
  const received = await addBuild(tx, {
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
 * Adds a release with other settings and the artifact of an earlier release, and a build that tries
 * it. An earlier build of this kind that is still pending ends. Throws like `receiveBuild`. Locks
 * the app's row.
 */
export async function receiveSettings(
  tx: Tx,
  change: NewSettings,
): Promise<ReceivedBuild & { readonly releaseNumber: number }> {
  const { projectId, appId, by, release, settings } = change;
  const app = await lockAppForChange(tx, change);
  const built = await addBuild(tx, {
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
 * Adds a build of the same source. It gets the commit and the settings of the earlier build, as far
 * as that build had stored them, and its original request for the rest. Throws
 * `Fault("not_found")` when the earlier build does not belong to the app, `Fault("conflict")` when
 * its uploaded files were removed.
 */
export async function rebuild(
  tx: Tx,
  ref: BuildRef & { readonly by: Actor },
): Promise<ReceivedBuild> {
  await lockAppForChange(tx, ref);
  const earlier = await store.lockBuild(tx, ref);
  if (earlier.upload_id !== null && !(await isUploadKept(tx, earlier.upload_id))) {
    throw new Fault(
      "conflict",
      "The files of this build were removed, since newer ones were uploaded: upload them again.",
    );
  }
  return await addBuild(tx, {
    upload: earlier.upload_id,
    build: { projectId: ref.projectId, appId: ref.appId, cause: "rebuild", by: ref.by },
    request: earlier.request,
    configToml: earlier.config_toml,
    settings: earlier.settings as object | null,
    commit: earlier.commit_sha,
    branch: earlier.branch,
    message: earlier.commit_message,
    author: earlier.commit_author,
  });
}

type CommitColumn = "commit" | "branch" | "message" | "author";
type BuildToAdd = Readonly<Partial<Record<CommitColumn, string | null | undefined>>> & {
  readonly build: Omit<NewBuild, CommitColumn>;
  readonly request: unknown;
  readonly configToml: string | null;
  /** The settings that an earlier build arrived at; null: the build resolves them itself. */
  readonly settings: object | null;
  /** True for a build whose release gets the artifact of another release. */
  readonly keepsArtifact?: boolean;
  /** The id of the upload with the files; null: they come from the repository. */
  readonly upload?: string | null;
  /** True while these files are still to come. */
  readonly awaitsUpload?: boolean;
};

/** Adds the build, and ends the builds that it replaces. */
async function addBuild(tx: Tx, newBuild: BuildToAdd): Promise<ReceivedBuild> {
  const { projectId, appId, cause, by } = newBuild.build;
  const { keepsArtifact = false, awaitsUpload = false } = newBuild;
  const number = (await store.latestNumber(tx, appId)) + 1;
  await endReplaced(tx, newBuild, number);
  const waitsFor = await reasonToWait(tx, appId);
  const buildId = newBuildId();
  await store.insertBuild(tx, {
    id: buildId,
    projectId,
    appId,
    number,
    cause,
    reason: awaitsUpload ? `It waits for its files, for up to ${uploadHours} hours.` : waitsFor,
    request: newBuild.request,
    configToml: newBuild.configToml,
    settings: newBuild.settings,
    commit: newBuild.commit,
    // Only a text is checked: null and undefined stay what they are.
    message: newBuild.message && commitText(newBuild.message, "message"),
    author: newBuild.author && commitText(newBuild.author, "author"),
    branch: newBuild.branch,
    upload: newBuild.upload ?? null,
    awaitsUpload,
    keepsArtifact,
    by,
  });
  await notify(tx, "builds", buildId);
  return { buildId, number, status: "pending" };
}

/** Ends the app's unfinished builds that the new one replaces. */
async function endReplaced(
  tx: Tx,
  { build, keepsArtifact = false, awaitsUpload = false }: BuildToAdd,
  number: number,
): Promise<void> {
  const { appId, cause, isRunningSuperseded = false } = build;
  if (cause === "push") {
    const reason = `Build ${number} of a newer commit took its place.`;
    await endPushes(tx, { appId, reason, isRunningSuperseded });
  }
  if (cause === "settings") {
    // A build that makes a new artifact uses all settings, so it replaces all pending builds of
    // settings. A build that keeps an artifact lacks earlier changes that need a new artifact, so
    // the pending builds that make one stay.
    const reason = `Build ${number} of later settings took its place.`;
    await endBuilds(tx, {
      appId,
      cause,
      states: ["pending"],
      reason,
      isArtifactKept: keepsArtifact,
    });
  }
  if (awaitsUpload)
    await endWaiting(tx, appId, `Build ${number} took its place before its files had arrived.`);
}

/**
 * Says what a new build of the app waits for; null: nothing. Builds of one app run one after the
 * other.
 */
async function reasonToWait(tx: Tx, appId: AppId): Promise<string | null> {
  const unfinished = await store.unfinishedBuilds(tx, appId);
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
