// Connects the parts that handle calls and depend on each other: proxy, scheduler, runs. Does not
// listen yet.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import type { Authenticator } from "#accounts/authenticator.ts";
import type { BuildReceiver } from "#apps/build-receiver.ts";
import type { AppRoute, Routes } from "#apps/routes.ts";
import type { RollOutLoopParts } from "#deploy/roll-out-loop.ts";
import type { ReleaseCondition } from "#deploy/worse.ts";
import type { Driver } from "#drivers/driver.ts";
import { diskFullRetrySeconds } from "#lib/disk-full.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, ReleaseId } from "#lib/ids.ts";
import { openProxy, type ProxySettings } from "#proxy/open.ts";
import { forwardingTo, openCallRecords, openRuns, type RunSettings } from "#runs/open.ts";
import type { RunStep } from "#runs/run-steps.ts";
import type { Allowance } from "#scheduler/allowance.ts";
import { ReplicaExecs } from "#scheduler/replica-execs.ts";
import { ReplicaStore } from "#scheduler/replica-store.ts";
import { UseOfReplicas, type ReplicaUses } from "#scheduler/replica-use.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import { Scheduler, type SchedulerParts } from "#scheduler/scheduler.ts";
import { UseHistory } from "#scheduler/use-history.ts";
import type { OpenedPlans } from "#billing/open.ts";
import type { Foundation } from "#store/foundation.ts";
import type { OpenedWebhooks } from "#webhooks/open.ts";

type Parts = Foundation &
  OpenedWebhooks &
  Pick<Required<SchedulerParts>, "allowance" | "environmentOf" | "lines"> &
  Pick<OpenedPlans, "callDaysOf" | "callRecordsOf"> & {
    readonly tokens: Authenticator;
    readonly routes: Routes;
    readonly driver: Driver;
    readonly builds: Pick<BuildReceiver, "requestCancel">;
    /** Why nothing new can be stored when the disk is full; null: there is space. */
    readonly storeRefusal: () => string | null;
    /** Why the app's calls are refused now; null: they are not. */
    readonly refusalOf: (route: AppRoute) => Fault | null;
    readonly onStep: (step: RunStep) => void;
    readonly ownerKeyOf: OwnerKeyOf;
  };

/** Extra time to close the runs, after running calls have ended. */
const runsCloseMs = 10_000;

/**
 * Opens them. When this resolves, replicas are known and managed; runs are processed once they are
 * started.
 */
export async function openCalls(
  settings: ProxySettings &
    RunSettings & {
      readonly drainSeconds: number;
      readonly replicaExitSeconds: number;
      readonly replicaPendingSeconds: number;
      readonly paths: { readonly endsFile: string };
    },
  parts: Parts,
) {
  const {
    db,
    notifications,
    clock,
    log,
    lifecycle,
    tokens,
    routes,
    driver,
    lines,
    environmentOf,
    allowance,
  } = parts;
  const { storeRefusal } = parts;
  const refusalOf: Parts["refusalOf"] = (route) => stopOfPerson(route) ?? parts.refusalOf(route);
  const records = openCallRecords(parts, (call) => scheduler.brokeOff(call));
  const view = new ReplicaView();
  const proxy = openProxy(settings, {
    routes,
    tokens,
    view,
    log,
    clock,
    lifecycle,
    refusalOf,
    nudge: (appId) => scheduler.nudge(appId),
    onFinished: records.onFinished,
    brokeOff: (call, waitMs) => scheduler.brokeOff(call, waitMs),
    asyncAccept: {
      accept: (call) => {
        const refusal = storeRefusal();
        if (refusal === null) runs.accept(call);
        else
          call.refuse(
            new Fault("unavailable", refusal, { retryAfterSeconds: diskFullRetrySeconds }),
          );
      },
    },
    forwarding: forwardingTo(parts, settings.resultBytesMax),
  });
  notifications.listen("tokens", () => proxy.tokensChanged());
  const load = {
    demand: proxy.apps,
    occupancy: proxy.apps,
    allowance: withStops(allowance, routes),
  };
  const exitMs = settings.replicaExitSeconds * 1000;
  const pendingMs = settings.replicaPendingSeconds * 1000;
  const rows = new ReplicaStore(db);
  const { endsFile } = settings.paths;
  const scheduler = new Scheduler({
    driver,
    instanceId: parts.instanceId,
    rows,
    routes,
    view,
    environmentOf,
    lines,
    exitMs,
    pendingMs,
    endsFile,
    ...load,
    clock,
    log,
  });
  const { runs, runUseCases } = openRuns(settings, { ...parts, proxy, scheduler, refusalOf });
  await runs.prepare();
  await scheduler.start();
  lifecycle.onClose("scheduler", () => scheduler.stop());
  const drainMs = settings.drainSeconds * 1000;
  lifecycle.onClose("runs", () => runs.stop(drainMs), { waitMs: drainMs + runsCloseMs });
  const condition = (appId: AppId, releaseId: ReleaseId): ReleaseCondition => {
    const {
      calls = 0,
      failures = 0,
      failedSeconds = 0,
    } = proxy.apps.tallyOf(appId, releaseId) ?? {};
    return { calls, failures, failedSeconds, ...scheduler.serviceOf(appId, releaseId) };
  };
  // How the releases of a roll-out do now.
  const conditionsOf: RollOutLoopParts["conditionsOf"] = (appId, { old, next }) => ({
    old: condition(appId, old),
    next: condition(appId, next),
    weight: view.weightOf(appId, next),
  });
  const shareNow = (appId: AppId, releaseId: ReleaseId): number | null =>
    view.ready(appId).length === 0 ? null : view.weightOf(appId, releaseId);
  const { sampler } = scheduler;
  const uses = new UseOfReplicas({ sampler, clock, log });
  const replicaUses = (): Promise<ReplicaUses> => uses.get();
  const replicas = () => scheduler.replicas();
  const calls = () => proxy.apps.meters();
  const useHistory = new UseHistory({ db, sampler, replicas, calls, clock, log, lifecycle });
  useHistory.start();
  const execs = new ReplicaExecs({ driver, clock });
  return {
    execs,
    proxy,
    scheduler,
    runs,
    runUseCases,
    records,
    conditionsOf,
    shareNow,
    replicaUses,
    useHistory,
  };
}

/** The stops of persons come before those of budgets: a person has to act first. */
function withStops(allowance: Allowance, routes: Routes): Allowance {
  return {
    ...allowance,
    stopOf(projectId, appId) {
      const route = routes.byAppId(appId);
      const fault = route === undefined ? null : stopOfPerson(route);
      return fault === null
        ? allowance.stopOf(projectId, appId)
        : { code: "app_stopped", reason: fault.message };
    },
  };
}

/**
 * Why the app takes no calls; null: nobody has stopped it. Asked for each call: allocates only for
 * stopped apps.
 */
function stopOfPerson({ isStopped, projectId, appName }: AppRoute): Fault | null {
  if (isStopped !== true) return null;
  const path = `/v2/projects/${projectId}/apps/${projectId}-${appName}/start`;
  return new Fault(
    "app_stopped",
    `The app is stopped. It takes calls again when somebody starts it: POST ${path}.`,
  );
}
