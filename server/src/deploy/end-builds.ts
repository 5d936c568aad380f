// Ends unfinished builds: on request, or because a newer build replaces them. Callers hold the lock
// on the app's row; only `requestCancel` needs none, since it locks the row of the build.
import type { BuildState } from "@slipway/contract/words.ts";
import type { BuildRef } from "#apps/build-receiver.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, BuildId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { buildStatesBefore, isEnd } from "./build-states.ts";
import * as store from "./received-builds-store.ts";
import { failReleases } from "./release-store.ts";

/**
 * Cancels a build. A pending build is `cancelled` at once; any other build is ended by its worker
 * within about a second. Throws `Fault("not_found")`, or `Fault("conflict")` for a build that has
 * ended. Locks the build's row.
 */
export async function requestCancel(
  tx: Tx,
  ref: BuildRef,
): Promise<{ readonly status: BuildState }> {
  const build = await store.lockBuild(tx, ref);
  if (isEnd(build.status)) {
    throw new Fault(
      "conflict",
      `The build has already ended, with status ${build.status}; only a running build can be cancelled.`,
    );
  }
  const isCancelled = await endBuild(tx, ref.buildId, null);
  return { status: isCancelled ? "cancelled" : build.status };
}

/** Ends a pending build and returns true; false: the worker of the build will end it. */
async function endBuild(tx: Tx, buildId: BuildId, reason: string | null): Promise<boolean> {
  const wasPending = await store.cancelPending(
    tx,
    buildId,
    reason ?? "Cancelled before it started.",
  );
  if (wasPending) await failReleases(tx, [buildId]);
  else await store.requestEnd(tx, buildId, reason);
  await notify(tx, "builds", buildId);
  return wasPending;
}

/**
 * Ends the builds that earlier pushes of an app started: pending ones at once, and with
 * `isRunningSuperseded` also running ones, within about a second. The caller holds the lock on the
 * app's row. `reason` is a sentence.
 */
export async function endPushes(
  tx: Tx,
  builds: { readonly appId: AppId; readonly reason: string; readonly isRunningSuperseded: boolean },
): Promise<void> {
  const states = builds.isRunningSuperseded
    ? buildStatesBefore("cancelled")
    : (["pending"] as const);
  await endBuilds(tx, { ...builds, cause: "push", states, isArtifactKept: false });
}

/** Ends these builds. `reason` is a sentence. */
export async function endBuilds(
  tx: Tx,
  builds: store.UnfinishedBuilds & { readonly reason: string },
): Promise<void> {
  const unfinished = await store.lockUnfinished(tx, builds);
  for (const { id } of unfinished) await endBuild(tx, id, builds.reason);
}

/** Ends the builds of an app that wait for their files. */
export async function endWaiting(tx: Tx, appId: AppId, reason: string): Promise<void> {
  for (const { id } of await store.lockWaitingForFiles(tx, appId)) await endBuild(tx, id, reason);
}
