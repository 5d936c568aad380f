// Connects the parts that handle calls and depend on each other: proxy, scheduler, runs. Does not
// listen yet.
import { totalmem } from "node:os";
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import type { Authenticator } from "#accounts/authenticator.ts";
import type { BuildReceiver } from "#apps/build-receiver.ts";
import type { AppRoute, Routes } from "#apps/routes.ts";
import type { Driver } from "#drivers/driver.ts";
import type { AppHosts } from "#lib/app-hosts.ts";
import type { Fault } from "#lib/fault.ts";
import type { AppId, ReleaseId } from "#lib/ids.ts";
import { openProxy, type ProxySettings } from "#proxy/open.ts";
import type { Proxy } from "#proxy/proxy.ts";
import { forwardingTo, openCallRecords, openRuns, type RunSettings } from "#runs/open.ts";
import type { RunStep } from "#runs/run-steps.ts";
import { releaseConditions } from "#scheduler/release-conditions.ts";
import { ReplicaExecs } from "#scheduler/replica-execs.ts";
import { ReplicaStore } from "#scheduler/replica-store.ts";
import { UseOfReplicas, type ReplicaUses } from "#scheduler/replica-use.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import { startSchedulerRetention } from "#scheduler/retention.ts";
import { Scheduler, type SchedulerParts } from "#scheduler/scheduler.ts";
import { stopOfPerson, withStoppedApps } from "#scheduler/stopped-apps.ts";
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
    /** The host names of apps. */
    readonly appHosts: Pick<AppHosts, "appOf">;
    readonly driver: Driver;
    readonly builds: Pick<BuildReceiver, "requestCancel">;
    /** Returns why nothing new can be stored, when the disk is full; null when there is space. */
    readonly storeRefusal: () => string | null;
    /** Returns why the app's calls are refused now; null when they are not. */
    readonly refusalOf: (route: AppRoute) => Fault | null;
    /** Called after each durable step of a run; does nothing except in tests. */
    readonly onStep: (step: RunStep) => void;
    readonly ownerKeyOf: OwnerKeyOf;
  };

type SchedulerSettings = {
  readonly replicaExitSeconds: number;
  readonly replicaPendingSeconds: number;
  readonly zygoteMemoryPercent: number;
  readonly paths: { readonly endsFile: string };
};

type CallSettings = ProxySettings & RunSettings & SchedulerSettings;

/**
 * Opens proxy, scheduler and runs. When this resolves, replicas are known and managed; runs are
 * processed only after `runs.start()`.
 */
export async function openCalls(settings: CallSettings, parts: Parts) {
  const { notifications, clock, log, lifecycle, tokens, routes, driver } = parts;
  const refusalOf: Parts["refusalOf"] = (route) => stopOfPerson(route) ?? parts.refusalOf(route);
  // `scheduler` and `runs` are set below. The functions that refer to them are called only when
  // calls arrive.
  const records = openCallRecords(parts, (call) => scheduler.brokeOff(call));
  const view = new ReplicaView();
  const proxy = openProxy(settings, {
    routes,
    appHosts: parts.appHosts,
    tokens,
    view,
    log,
    clock,
    lifecycle,
    refusalOf,
    nudge: (appId) => scheduler.nudge(appId),
    onFinished: records.onFinished,
    brokeOff: (call, waitMs) => scheduler.brokeOff(call, waitMs),
    asyncAccept: { accept: (call) => runs.accept(call) },
    forwarding: forwardingTo(parts, settings.resultBytesMax),
  });
  notifications.listen("tokens", () => proxy.tokensChanged());
  const scheduler = createScheduler(settings, { ...parts, proxy, view });
  const { runs, runUseCases } = openRuns(settings, { ...parts, proxy, scheduler, refusalOf });
  await runs.prepare();
  await scheduler.start();
  lifecycle.onClose("scheduler", () => scheduler.stop());
  lifecycle.onClose("runs", () => runs.stop());
  const use = openUse(parts, { proxy, scheduler });
  const { runRetentionDays, callRetentionDays } = settings;
  const { callDaysOf } = parts;
  startSchedulerRetention({ runRetentionDays, callRetentionDays, callDaysOf }, parts);
  return {
    execs: new ReplicaExecs({ driver, clock }),
    proxy,
    scheduler,
    runs,
    runUseCases,
    records,
    conditionsOf: releaseConditions({
      tallyOf: (appId, releaseId) => proxy.apps.tallyOf(appId, releaseId),
      serviceOf: (appId, releaseId) => scheduler.serviceOf(appId, releaseId),
      view,
    }),
    shareNow: (appId: AppId, releaseId: ReleaseId) => view.shareNow(appId, releaseId),
    ...use,
  };
}

/** Creates the scheduler, which does nothing until it is started. */
function createScheduler(
  { replicaExitSeconds, replicaPendingSeconds, zygoteMemoryPercent, paths }: SchedulerSettings,
  parts: Parts & { readonly proxy: Proxy; readonly view: ReplicaView },
): Scheduler {
  const { db, clock, log, driver, routes, lines, environmentOf, allowance, proxy, view } = parts;
  return new Scheduler({
    driver,
    instanceId: parts.instanceId,
    rows: new ReplicaStore(db),
    routes,
    view,
    environmentOf,
    lines,
    exitMs: replicaExitSeconds * 1000,
    pendingMs: replicaPendingSeconds * 1000,
    zygoteBytes: Math.floor((totalmem() * zygoteMemoryPercent) / 100),
    endsFile: paths.endsFile,
    demand: proxy.apps,
    occupancy: proxy.apps,
    allowance: withStoppedApps(allowance, routes),
    clock,
    log,
  });
}

/** Begins to record what replicas use. The result tells what they use now, and what they used. */
function openUse(
  { db, clock, log, lifecycle }: Foundation,
  { proxy, scheduler }: { readonly proxy: Proxy; readonly scheduler: Scheduler },
) {
  const { sampler } = scheduler;
  const uses = new UseOfReplicas({ sampler, clock, log });
  const replicas = () => scheduler.replicas();
  const calls = () => proxy.apps.meters();
  const useHistory = new UseHistory({ db, sampler, replicas, calls, clock, log, lifecycle });
  useHistory.start();
  return { replicaUses: (): Promise<ReplicaUses> => uses.get(), useHistory };
}
