// Ends builds before they are done: on request, or since a newer one takes their place. Callers
// hold the lock on the app's row, except those of `requestCancel`, which locks the build's.
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
 * Requests cancellation of a build. One that nobody works on is `cancelled` at once; otherwise its
 * worker ends it within about a second. Throws `Fault("not_found")`, or `Fault("conflict")` for a
 * build that has ended. Locks the build's row.
 */
export async function requestCancel(
  tx: Tx,
  given: BuildRef,
): Promise<{ readonly status: BuildState }> {
  const build = await store.lockBuild(tx, given);
  if (isEnd(build.status)) {
    throw new Fault(
      "conflict",
      `The build has already ended, with status ${build.status}; only a running build can be cancelled.`,
    );
  }
  return { status: (await askToEnd(tx, given.buildId, null)) ? "cancelled" : build.status };
}

/** Ends a pending build at once, and returns true; asks the worker of another one. */
async function askToEnd(tx: Tx, buildId: BuildId, reason: string | null): Promise<boolean> {
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
  await endBuilds(tx, { ...given, cause: "push", states, isArtifactKept: false });
}

/** Ends these builds. `reason` is a sentence. */
export async function endBuilds(
  tx: Tx,
  given: store.UnfinishedBuilds & { readonly reason: string },
): Promise<void> {
  for (const { id } of await store.lockUnfinished(tx, given)) await askToEnd(tx, id, given.reason);
}

/** Ends the builds of an app that wait for their files. */
export async function endWaiting(tx: Tx, appId: AppId, reason: string): Promise<void> {
  for (const { id } of await store.lockWaitingForFiles(tx, appId)) await askToEnd(tx, id, reason);
}
