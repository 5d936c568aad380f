// Moves roll-outs on: begins the next step when the time of a step is over, and finishes a roll-out
// after the last step. Takes a release back that is clearly worse than the one before it. The step
// is in the database: a restarted platform continues with it, but compares the releases anew.
import type { AppRoute, RouteRollOut } from "#apps/routes.ts";
import {
  lockRollOut,
  moveRollOut,
  stepMs,
  stepShare,
  takeBackRollOut,
} from "#apps/roll-out-store.ts";
import { finishRollOut, recordRollOut } from "#apps/roll-outs.ts";
import { platformActor } from "#audit/record.ts";
import type { AppId, ProjectId, ReleaseId } from "#lib/ids.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import { Loop } from "#lib/loop.ts";
import { addAppLines } from "#logs/app-log-store.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { latestReplicaOf } from "./release-store.ts";
import {
  compared,
  newComparison,
  worseBecause,
  type Comparison,
  type Conditions,
} from "./worse.ts";

export type RollOutLoopParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly routes: { all(): Iterable<AppRoute>; refresh(appId: AppId): Promise<void> };
  /** How well both releases of an app work now, as the scheduler and the proxy know. */
  readonly conditionsOf: (
    appId: AppId,
    releases: { readonly old: ReleaseId; readonly next: ReleaseId },
  ) => Conditions;
  /** Sends mail to the owners of a project, in the background. */
  readonly mailOwners: (
    projectId: ProjectId,
    mail: { readonly subject: string; readonly text: string },
  ) => Promise<void>;
};

/** Short, since a turn reads only memory unless a step is over. */
const intervalMs = 500;

/** A release that is being rolled out, and how it compares with the release before it. */
type Watched = { readonly releaseId: ReleaseId; readonly comparison: Comparison };

/** Starts the loop, which stops with the platform. */
export function startRollOuts(parts: RollOutLoopParts & { readonly lifecycle: Lifecycle }): void {
  const { clock, log, lifecycle } = parts;
  const watched = new Map<AppId, Watched>();
  const turn = (): Promise<void> => moveAllOn(parts, watched);
  new Loop({ name: "roll-outs", intervalMs, turn, clock, log }).startWithin(lifecycle);
}

/** Does one turn of the loop, for all apps that have a roll-out. */
async function moveAllOn(parts: RollOutLoopParts, watched: Map<AppId, Watched>): Promise<void> {
  const routes = [...parts.routes.all()].filter(({ rollOut }) => rollOut);
  const active = new Set(routes.map(({ appId }) => appId));
  for (const appId of watched.keys()) if (!active.has(appId)) watched.delete(appId);
  for (const { appId, live, rollOut } of routes) {
    if (live === null || !rollOut) continue;
    try {
      const hasChanged = await checkRollOut(parts, watched, { appId, live, rollOut });
      if (hasChanged) await parts.routes.refresh(appId);
    } catch (error) {
      // The next turn tries again; the roll-outs of other apps go on.
      parts.log.error({ err: error, appId }, "a roll-out could not be moved on");
    }
  }
}

/** Takes the release back, or begins the next step, if it is time; true when it did either. */
async function checkRollOut(
  parts: RollOutLoopParts,
  watched: Map<AppId, Watched>,
  route: { appId: AppId; live: NonNullable<AppRoute["live"]>; rollOut: RouteRollOut },
): Promise<boolean> {
  const { appId, live, rollOut } = route;
  const { clock } = parts;
  const { releaseId } = rollOut.release;
  const conditions = parts.conditionsOf(appId, { old: live.releaseId, next: releaseId });
  const before = watched.get(appId);
  const comparison =
    before?.releaseId === releaseId
      ? compared(before.comparison, conditions, clock.monotonicMs())
      : newComparison(conditions);
  watched.set(appId, { releaseId, comparison });
  const reason = worseBecause(comparison, clock.monotonicMs());
  if (reason !== null) return await takeBack(parts, { appId, releaseId }, reason);
  const { serving, unready, failedStarts } = conditions.next;
  // A larger share would have no effect: without ready replicas, calls go to the other release.
  const isHeldUp = serving === 0 && (unready > 0 || failedStarts > 0);
  if (rollOut.stepEndsAt === null || clock.now() < rollOut.stepEndsAt || isHeldUp) return false;
  return await moveOn(parts, { appId, releaseId });
}

type ReleaseOfApp = { readonly appId: AppId; readonly releaseId: ReleaseId };

/** Begins the next step, or finishes the roll-out; false when it has changed meanwhile. */
async function moveOn(
  { db, clock }: RollOutLoopParts,
  { appId, releaseId }: ReleaseOfApp,
): Promise<boolean> {
  return await db.transaction().execute(async (tx) => {
    const rollOut = await lockRollOut(tx, { appId });
    const nowMs = clock.now();
    // The roll-out has changed since: by a person or another deploy, or the app is gone.
    if (!rollOut || rollOut.releaseId !== releaseId) return false;
    // A running roll-out has a time at which its step ends.
    if (rollOut.state !== "running" || nowMs < (rollOut.stepEndsAt?.getTime() ?? 0)) return false;
    const share = rollOut.share + stepShare;
    // Shares are percentages; the step that has just ended was the one with all calls.
    if (share > 100) {
      await finishRollOut(tx, rollOut);
      await recordRollOut(tx, rollOut, { action: "rollout.finish", by: { actor: platformActor } });
      return true;
    }
    const stepEndsAt = new Date(nowMs + stepMs(rollOut.durationSeconds));
    await moveRollOut(tx, appId, { state: "running", share, stepEndsAt, stepLeftMs: null });
    return true;
  });
}

/** Takes the release back for this reason; false when the roll-out has changed meanwhile. */
async function takeBack(
  parts: RollOutLoopParts,
  { appId, releaseId }: ReleaseOfApp,
  why: string,
): Promise<boolean> {
  const { db, clock, log } = parts;
  const taken = await db.transaction().execute(async (tx) => {
    const rollOut = await lockRollOut(tx, { appId });
    if (!rollOut || rollOut.releaseId !== releaseId) return null;
    const reason = `Its roll-out was rolled back at ${rollOut.share} % of the calls, because it is worse than the release before: ${why}`;
    await takeBackRollOut(tx, rollOut, { reason, isWorse: true });
    await recordRollOut(tx, rollOut, {
      action: "rollout.take_back",
      by: { actor: platformActor },
      reason,
    });
    await addLine(tx, { appId, releaseId }, { at: clock.now(), reason });
    log.warn({ appId, releaseId, reason }, "a release was rolled back");
    return { ...rollOut, reason };
  });
  if (taken === null) return false;
  const { projectId, name, number, reason } = taken;
  const text = `Release v${number} of the app ${name} (project ${projectId}) no longer takes calls; they go to the release before it.\n\n${reason}\n\nThe log of the app has more. To try again, deploy the app with a fix.\n`;
  const mail = { subject: `Slipway: release v${number} of ${name} was rolled back`, text };
  await parts
    .mailOwners(projectId, mail)
    .catch((error: unknown) => log.error({ err: error }, "no mail was sent"));
  return true;
}

/** Writes the reason into the app's log, as a line of the release's latest replica. */
async function addLine(
  tx: Tx,
  { appId, releaseId }: ReleaseOfApp,
  line: { at: number; reason: string },
): Promise<void> {
  const replica = await latestReplicaOf(tx, releaseId);
  if (replica === undefined) return;
  const text = `[slipway] Release v${replica.number}: ${line.reason}`;
  const source = { appId, projectId: replica.project_id, replicaId: replica.id, runId: null };
  await addAppLines(tx, [{ ...source, at: line.at, stream: "stderr", text }]);
}
