// The only assembler: builds every part, hands each exactly what it uses, and registers how it is closed. The order of
// opening is the order of this file; closing is the reverse, and loops end before what they use.
import type { Authenticator } from "#accounts/authenticator.ts";
import { createApi, type ApiParts } from "#api/server.ts";
import type { Urls } from "#api/urls.ts";
import { resealOld } from "#apps/reseal.ts";
import { Routes } from "#apps/routes.ts";
import { useCases, type UseCases } from "#apps/use-cases.ts";
import { resealForwardings } from "#audit/forwarding/reseal.ts";
import { BuildQueue } from "#deploy/queue.ts";
import { rebuild, receiveBuild, requestCancel } from "#deploy/receive.ts";
import { GitSource } from "#deploy/sources/git.ts";
import { cpuSecondsFor, Git } from "#deploy/sources/git-command.ts";
import type { Builder } from "#drivers/builder.ts";
import type { Driver } from "#drivers/driver.ts";
import { must } from "#lib/assert.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { steadyClock } from "#lib/steady-clock.ts";
import { Fault } from "#lib/fault.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import { isDiskFull, diskFullRetrySeconds } from "#lib/disk-full.ts";
import type { RunId } from "#lib/ids.ts";
import type { OutwardGuard } from "#lib/outward-guard.ts";
import { startRetention } from "#lib/retention.ts";
import type { Secret } from "#lib/secret.ts";
import { AppLogs } from "#logs/app-log.ts";
import { BuildLogs } from "#logs/build-log.ts";
import { logRetention } from "#logs/retention.ts";
import { Proxy } from "#proxy/proxy.ts";
import { createListener, type ListenerParts } from "#proxy/server.ts";
import { callRecordWriter } from "#runs/call-record-store.ts";
import { CallRecords } from "#runs/call-records.ts";
import { resealRuns } from "#runs/reseal.ts";
import { RunUseCases } from "#runs/run-use-cases.ts";
import { runRetention } from "#runs/run-retention.ts";
import type { Runs } from "#runs/runs.ts";
import { ReplicaStore } from "#scheduler/replica-store.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import { Scheduler } from "#scheduler/scheduler.ts";
import { openDatabase } from "#store/database.ts";
import { DatabaseCounts } from "#store/database-counts.ts";
import { DatabaseLock } from "#store/database-lock.ts";
import { startEmbedded } from "#store/postgres/embedded.ts";
import { lockFolder } from "#store/folder-lock.ts";
import { migrate } from "#store/migrate.ts";
import { Notifications } from "#store/notify.ts";
import { resealWebhooks } from "#webhooks/reseal.ts";
import type { Webhooks } from "#webhooks/webhooks.ts";
import { bootstrap } from "./bootstrap.ts";
import { dataPaths, type Config } from "./config.ts";
import { openAudit } from "./platform-audit.ts";
import { openBilling } from "./platform-billing.ts";
import { watchClock } from "./platform-clock.ts";
import { openDriver } from "./platform-driver.ts";
import type { Foundation } from "./platform-foundation.ts";
import { fullDiskText, releaseReserve } from "./platform-full-disk.ts";
import { Health } from "./platform-health.ts";
import { openMetrics } from "./platform-metrics.ts";
import { openPeople } from "./platform-people.ts";
import { openBudgets, openPlans, type OpenedPlans } from "./platform-plans.ts";
import { forwardingTo, type OnStep, openRuns, openWebhooks } from "./platform-runs.ts";
import { openSealer } from "./secret-key.ts";

/** A platform that serves. */
export type Platform = {
  /** Where it is reached, without a slash at the end. */
  readonly baseUrl: string;
  /** Resolves, with a message for the operator, when it must be stopped: another platform has taken its database. */
  readonly lost: Promise<string>;
  /** Stops accepting, lets running calls end, closes everything. Replicas go on running; the next start takes them over. */
  stop(): Promise<void>;
};

const clock = steadyClock;
/** How much longer than running calls the runs may take to close. */
const runsCloseMs = 10_000;

/**
 * Starts everything. Throws `CannotStart` with what to do; whatever was opened by then is closed again. `onStep` is for
 * tests, which end the process after a step.
 */
export async function startPlatform(config: Config, log: Log, onStep: OnStep = () => undefined): Promise<Platform> {
  const lifecycle = new Lifecycle({ log, clock });
  try {
    return { ...(await assemble(config, log, { lifecycle, onStep })), stop: () => lifecycle.close() };
  } catch (error) {
    await lifecycle.close().catch((cause: unknown) => log.error({ err: cause }, "closing after a failed start"));
    if (!isDiskFull(error)) throw error;
    throw new CannotStart(await fullDiskText(config.dataDir, error), { cause: error });
  }
}

type Frame = { readonly lifecycle: Lifecycle; readonly onStep: OnStep };

async function assemble(config: Config, log: Log, { lifecycle, onStep }: Frame): Promise<Omit<Platform, "stop">> {
  const { lost, ...store } = await openStore(config, log, lifecycle);
  const { db, notifications, sealer } = store;
  await resealAll(store, log);
  const reached: Reached = { urls: null };
  const reachedAt = (): string => must(reached.urls, "the platform listens").baseUrl;
  const { keys, tokens, people, membership, personChanged, ...tokenUseCases } = await openPeople(config, {
    ...store,
    log,
    lifecycle,
    clock,
    baseUrl: reachedAt,
  });
  const routes = new Routes({ db, notifications, log, clock });
  await routes.start();
  lifecycle.onClose("routes", () => routes.stop());
  const planned = await openPlans(config, { ...store, log, lifecycle, clock });
  const receiver = planned.admitting({ receiveBuild, rebuild, requestCancel });
  const cases = useCases({ db, sealer, receiver, providers: config.providers, personChanged });
  const logs = openLogs(config, { db, notifications, daysOf: planned.logDaysOf, log, lifecycle });

  const { driver, builder, disk, storeRefusal, onListening } = await openDriver(config, {
    ...store,
    log,
    lifecycle,
    clock,
  });
  const environmentOf: CallParts["environmentOf"] = (appId) => cases.secrets.environmentOf(appId);
  const shared = { tokens, routes, driver, storeRefusal, environmentOf, planned, log, lifecycle, onStep };
  const parts = { ...store, ...shared, lines: logs.appLogs };
  const calls = await openCalls(config, parts);
  const { proxy, scheduler, runs, webhooks, guard } = calls;

  const onCancelled = (runId: RunId): void => runs.cancel(runId);
  const runUseCases = new RunUseCases({ ...{ db, clock, log, onCancelled }, ...config });
  const { budgets, posted } = openBudgets({ ...store, guard, mail: people.mailer, log, lifecycle, clock });
  const money = { ...store, plans: planned.plans.useCases, log, lifecycle, clock };
  const billing = openBilling(config, money, { onPosted: posted, onStep });
  const audit = await openAudit(config, { ...store, keys, guard, plans: planned.cache, log, lifecycle, clock });
  const apiParts = {
    ...audit,
    ...{ people, membership, ...tokenUseCases },
    useCases: cases,
    runs: runUseCases,
    webhooks: webhooks.useCases,
    ...{ ...billing, budgets, plans: planned.plans },
    tokens,
    keys,
    ...logs,
    log,
  };
  const health = new Health({ db, clock, storeRefusal });
  const port = await openListener(config, { ...apiParts, scheduler, proxy, lifecycle, reached, health });
  guard.addOwnListener({ host: config.host, port });
  await onListening(port);
  lifecycle.onClose("waiting runs", () => runs.quiesce());
  runs.start();
  await webhooks.start();
  const { baseUrl } = must(reached.urls, "the platform listens");
  await bootstrap({ db, keys, file: dataPaths(config.dataDir).bootstrapFile, baseUrl, clock, log });

  const queue = openQueue(config, { ...store, ...logs, log, cases, routes, scheduler, driver, builder });
  await queue.start();
  lifecycle.onClose("builds", () => queue.stop());
  health.serve(lifecycle);
  const addOwnListener: OutwardGuard["addOwnListener"] = (place) => guard.addOwnListener(place);
  await openMetrics(config, { ...store, ...calls, queue, disk, health, addOwnListener, lifecycle, log, clock });
  return { baseUrl, lost };
}

/** What was encrypted with an older secret key is encrypted with the current one. */
async function resealAll({ db, sealer }: Store, log: Log): Promise<void> {
  let resealed = 0;
  for (const reseal of [resealOld, resealWebhooks, resealRuns, resealForwardings]) resealed += await reseal(db, sealer);
  if (resealed > 0) log.info({ resealed }, "encrypted secrets with the current secret key");
}

type Calls = {
  readonly proxy: Proxy;
  readonly scheduler: Scheduler;
  readonly runs: Runs;
  readonly records: CallRecords;
  readonly webhooks: Webhooks;
  readonly guard: OutwardGuard;
};

type CallParts = Store &
  Frame & {
    readonly tokens: Authenticator;
    readonly routes: Routes;
    readonly driver: Driver;
    readonly storeRefusal: () => string | null;
    readonly environmentOf: ConstructorParameters<typeof Scheduler>[0]["environmentOf"];
    readonly planned: OpenedPlans;
    readonly lines: AppLogs;
    readonly log: Log;
  };

/** All that calls go through: proxy, scheduler, runs, webhooks; nothing is listened for yet. */
async function openCalls(config: Config, parts: CallParts): Promise<Calls> {
  const { db, notifications, tokens, routes, driver, storeRefusal, environmentOf, planned, lines, log, lifecycle } =
    parts;
  const { allowance, refusalOf } = planned;
  const { webhooks, guard } = openWebhooks(config, parts);
  const records = new CallRecords({ ...callRecordWriter(db), clock, log });
  lifecycle.onClose("records of calls", () => records.stop());
  const view = new ReplicaView();
  const proxy = new Proxy({
    ...{ routes, tokens, view, log, clock },
    ...{ trustedProxies: config.trustedProxies, appPagesHost: config.appPagesHost },
    nudge: (appId) => scheduler.nudge(appId),
    limits: { lineLengthMax: config.lineLength, bodyBytesMax: config.bodyLimitBytes },
    onFinished: records.onFinished,
    refusalOf,
    asyncAccept: {
      accept: (call) => {
        const refusal = storeRefusal();
        if (refusal === null) runs.accept(call);
        else call.refuse(new Fault("unavailable", refusal, { retryAfterSeconds: diskFullRetrySeconds }));
      },
    },
    forwarding: forwardingTo(webhooks, guard, config.resultBytesMax),
  });
  notifications.listen("tokens", () => proxy.tokensChanged());
  lifecycle.onClose("proxy", () => proxy.close());
  const rows = new ReplicaStore(db);
  const load = { demand: proxy, occupancy: proxy, allowance };
  const scheduler = new Scheduler({ ...{ driver, routes, view, log, clock, rows, environmentOf, lines }, ...load });
  const runs = openRuns(config, { ...parts, proxy, webhooks, scheduler, refusalOf });
  const steps = () => runRetention({ db, clock, ...config });
  startRetention({ name: "run retention", steps, clock, log, lifecycle });
  await runs.prepare();
  await scheduler.start();
  lifecycle.onClose("scheduler", () => scheduler.stop());
  const drainMs = config.drainSeconds * 1000;
  lifecycle.onClose("runs", () => runs.stop(drainMs), { waitMs: drainMs + runsCloseMs });
  return { proxy, scheduler, runs, records, webhooks, guard };
}

/** What is known only once the platform listens. */
type Reached = { urls: Urls | null };

type ListenerNeeds = Omit<ApiParts, "stopping" | "urls" | "deploysPerMinute" | "trustedProxies" | "waitReason"> & {
  readonly scheduler: Scheduler;
  readonly proxy: Proxy;
  readonly lifecycle: Lifecycle;
  readonly reached: Reached;
};

/** The management API and the one listener before it and the proxy; returns its port. */
async function openListener(config: Config, given: ListenerNeeds): Promise<number> {
  const { scheduler, proxy, lifecycle, reached, ...parts } = given;
  const stopping = new AbortController();
  const api = createApi({
    ...{ ...parts, clock, stopping: stopping.signal },
    urls: () => must(reached.urls, "the platform listens"),
    deploysPerMinute: config.deploysPerMinute,
    trustedProxies: config.trustedProxies,
    waitReason: (appId) => scheduler.waitReason(appId),
  });
  await api.ready();
  lifecycle.onClose("api", () => api.close());
  const port = await listen(config, lifecycle, {
    handle: (request, response) => proxy.handle(request, response),
    handlePlain: (client, request) => proxy.handlePlain(client, request),
    upgrade: (request, socket, firstBytes) => proxy.upgrade(request, socket, firstBytes),
    fallback: (request, response) => api.routing(request, response),
    trustedProxies: config.trustedProxies,
    clock,
  });
  // Live logs would hold the listener until their builds end.
  lifecycle.onClose("live logs", () => stopping.abort(new Error("the platform is stopping")));
  reached.urls = urlsOf(config, port);
  return port;
}

/** How much longer than calls may take the listener itself may take to close. */
const listenerCloseMs = 10_000;

async function listen(config: Config, lifecycle: Lifecycle, parts: ListenerParts): Promise<number> {
  const listener = createListener(parts);
  const { host, port } = config;
  const drainMs = config.drainSeconds * 1000;
  try {
    const at = await listener.listen({ host, port });
    lifecycle.onClose("listener", () => listener.close({ drainMs }), { waitMs: drainMs + listenerCloseMs });
    return at.port;
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    const why = error.code === "EADDRINUSE" ? "another program has that port" : error.message;
    const message = `The platform cannot listen on ${host}, port ${port}: ${why}. Set SLIPWAY_HOST or SLIPWAY_PORT.`;
    throw new CannotStart(message, { cause: error });
  }
}

type Store = Pick<Foundation, "db" | "notifications" | "sealer" | "instanceId"> & { readonly counts: DatabaseCounts };

async function openStore(config: Config, log: Log, lifecycle: Lifecycle): Promise<Store & Pick<Platform, "lost">> {
  const paths = dataPaths(config.dataDir);
  await releaseReserve(config.dataDir);
  const lock = lockFolder(paths.lockFile);
  lifecycle.onClose("data folder", () => lock.release());
  let url: Secret;
  if (config.databaseUrl === null) {
    const connections = config.databaseConnections;
    const embedded = await startEmbedded({ folder: paths.postgresDir, lock, log, connections, clock });
    lifecycle.onClose("embedded database", () => embedded.stop());
    url = embedded.url;
  } else {
    url = config.databaseUrl;
  }
  const counts = new DatabaseCounts();
  const db = await openDatabase({ url, connections: config.databaseConnections, counts, log, clock });
  lifecycle.onClose("database", () => db.destroy());
  const { instanceId } = lock;
  const databaseLock = new DatabaseLock({ ...{ url, instanceId, log, clock }, dataDir: config.dataDir });
  await databaseLock.start();
  lifecycle.onClose("lock on the database", () => databaseLock.stop());
  await migrate({ url, log });
  await databaseLock.announce();
  await watchClock(clock, { db, lifecycle, log });
  const sealer = await openSealer(db, { secretKeys: config.secretKeys, secretKeyFile: paths.secretKeyFile });
  const notifications = new Notifications({ url, log, clock });
  await notifications.start();
  lifecycle.onClose("notifications", () => notifications.stop());
  return { db, counts, notifications, sealer, instanceId, lost: databaseLock.lost };
}

type LogParts = Pick<Store, "db" | "notifications"> & {
  readonly daysOf: OpenedPlans["logDaysOf"];
  readonly log: Log;
  readonly lifecycle: Lifecycle;
};

function openLogs(config: Config, parts: LogParts): { readonly buildLogs: BuildLogs; readonly appLogs: AppLogs } {
  const { db, notifications, daysOf, log, lifecycle } = parts;
  const buildLogs = new BuildLogs({ db, notifications, clock, log });
  lifecycle.onClose("build logs", () => buildLogs.flush());
  const appLogs = new AppLogs({ db, notifications, clock });
  lifecycle.onClose("app logs", () => appLogs.flush());
  const steps = () => logRetention({ db, clock, days: config.logRetentionDays, daysOf });
  startRetention({ name: "log retention", steps, clock, log, lifecycle });
  return { buildLogs, appLogs };
}

type QueueParts = Store & {
  readonly log: Log;
  readonly cases: UseCases;
  readonly routes: Routes;
  readonly scheduler: Scheduler;
  readonly driver: Driver;
  readonly builder: Builder;
  readonly buildLogs: BuildLogs;
};

function openQueue(config: Config, parts: QueueParts): BuildQueue {
  const { db, notifications, instanceId, log, cases, routes, scheduler, driver, builder, buildLogs } = parts;
  const git = new Git({ ...config, cpuSecondsMax: cpuSecondsFor(config.gitSizeBytes) });
  const source = new GitSource({
    ...{ git, clock, log, urlTemplate: config.gitUrl },
    timeoutMs: config.gitTimeoutSeconds * 1000,
    bytesMax: config.gitSizeBytes,
    sourcesDir: dataPaths(config.dataDir).sourcesDir,
    findCredential: (projectId, host) => cases.credentials.forFetch(projectId, host),
  });
  return new BuildQueue({
    ...{ db, notifications, instanceId, source, builder, driver, clock, log },
    logs: buildLogs,
    trial: scheduler,
    refreshRoute: (appId) => routes.refresh(appId),
    registryAuthOf: (appId) => cases.credentials.forRegistry(appId),
    providers: config.providers,
    buildTimeoutMs: config.buildTimeoutSeconds * 1000,
    buildsAtOnce: config.buildsAtOnce,
  });
}

/** A platform that listens on all addresses is reached on this machine at least. */
function urlsOf(config: Config, port: number): Urls {
  const anyAddress = config.host === "0.0.0.0" || config.host === "::";
  const host = anyAddress ? "127.0.0.1" : config.host.includes(":") ? `[${config.host}]` : config.host;
  const baseUrl = config.publicUrl ?? `http://${host}:${port}`;
  return { baseUrl, apiUrl: baseUrl, dashboardUrl: `${baseUrl}/dashboard` };
}
