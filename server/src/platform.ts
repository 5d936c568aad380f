// Assembles the platform: opens each area with exactly the parts that it uses, in the order of this
// file. Closing runs in reverse, so loops end before the parts that they use.
import { takeExecSocket, isExecSocket } from "#api/exec-upgrade.ts";
import { isLogSocket, LogSockets } from "#api/log-sockets.ts";
import type { Urls } from "#api/urls.ts";
import { openBuilds } from "#deploy/open.ts";
import type { BuildQueue } from "#deploy/queue.ts";
import { startRollOuts } from "#deploy/roll-out-loop.ts";
import type { TrialStarter } from "#deploy/trial.ts";
import type { AppHosts } from "#lib/app-hosts.ts";
import { must } from "#lib/assert.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { isDiskFull } from "#lib/disk-full.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import { steadyClock } from "#lib/steady-clock.ts";
import type { Certificates } from "#proxy/certificates.ts";
import { openListener } from "#proxy/open.ts";
import type { Listener } from "#proxy/server.ts";
import type { Scheduler } from "#scheduler/scheduler.ts";
import type { Foundation } from "#store/foundation.ts";
import { openStore } from "#store/open.ts";
import { bootstrap } from "./bootstrap.ts";
import { dataPaths, type Config } from "./config.ts";
import { openBackups } from "./platform-backups.ts";
import { openCalls } from "./platform-calls.ts";
import { openChosenDriver } from "./platform-driver.ts";
import { fullDiskText, releaseReserve } from "./platform-full-disk.ts";
import { Health } from "./platform-health.ts";
import {
  openApi,
  openManagement,
  type OnStep,
  type OpenedManagement,
  type Settings,
} from "./platform-management.ts";
import { openHold } from "./platform-hold.ts";
import { openMetrics } from "./platform-metrics.ts";
import { sealedColumns } from "./platform-sealed.ts";

/** A running platform. */
export type Platform = {
  /** Base URL without a trailing slash. */
  readonly baseUrl: string;
  /**
   * Resolves, with a message for the operator, when the platform must stop because another platform
   * has taken over its database.
   */
  readonly lost: Promise<string>;
  /** The socket, which may be handed on to another platform. */
  readonly listener: Listener;
  /** The number of running replicas, also after `stop`. */
  replicas(): number;
  /**
   * Stops accepting calls, lets running calls end, and closes everything. Replicas keep running;
   * the next start adopts them.
   */
  stop(): Promise<void>;
};

const clock = steadyClock;

/** The drain of runs may take this much longer than the runs, to notice that they have ended. */
const runsDrainMs = 10_000;

/**
 * Starts the platform. Throws `CannotStart` with a remedy, after closing everything it has opened.
 * `onStep` is for tests, which kill the process after a step.
 */
export async function startPlatform(
  config: Config,
  log: Log,
  onStep: OnStep = () => undefined,
): Promise<Platform> {
  const lifecycle = new Lifecycle({ log, clock });
  try {
    return {
      ...(await assemble(config, { log, lifecycle, onStep })),
      stop: () => lifecycle.close(),
    };
  } catch (error) {
    await lifecycle
      .close()
      .catch((cause: unknown) => log.error({ err: cause }, "closing after a failed start"));
    if (!isDiskFull(error)) throw error;
    throw new CannotStart(await fullDiskText(config.dataDir, error), { cause: error });
  }
}

type StartParts = { readonly log: Log; readonly lifecycle: Lifecycle; readonly onStep: OnStep };

async function assemble(
  config: Config,
  { onStep, ...parts }: StartParts,
): Promise<Omit<Platform, "stop">> {
  const settings = { ...config, paths: dataPaths(config.dataDir) };
  await releaseReserve(config.dataDir);
  const storeParts = { ...parts, clock, sealedColumns };
  const { lost, counts, ...foundation } = await openStore(settings, storeParts);
  const { db, lifecycle, log } = foundation;
  const ownUrls = new OwnUrls();
  // The API answers before the queue is open. When the queue starts, it checks all artifacts, so it
  // also finds those that became unused before.
  let queue: BuildQueue | null = null;
  const management = await openManagement(settings, {
    ...foundation,
    urls: () => ownUrls.urls,
    openDriver: () => openChosenDriver(settings, foundation),
    onUnused: () => queue?.noteUnused(),
    onStep,
  });
  const { opened, identity, routes, webhooks, guard } = management;
  const { disk, driver } = opened;
  // An external database has a disk of its own, so a full disk here does not keep it from storing.
  const storeRefusal = (): string | null =>
    config.databaseUrl === null ? disk.storeRefusal() : null;
  const areas = { foundation, management };
  const calls = await openCallsOver(settings, { ...areas, storeRefusal, onStep });
  const { scheduler, runs } = calls;
  const health = new Health({ db, clock, storeRefusal });
  const { port, listener, tls } = await listen(config, {
    ...calls,
    management,
    health,
    ownUrls,
    lifecycle,
  });
  // Outward calls of the platform, such as webhooks, must not reach these ports.
  const ports = tls === null ? ([port] as const) : ([port, tls.port] as const);
  for (const own of ports) guard.addOwnListener({ host: config.host, port: own });
  await opened.onListening?.(port);
  const { holdSeconds } = config;
  if (holdSeconds > 0) listener.holdBack = await openHold({ ports, holdSeconds, clock, log });
  const drainMs = config.drainSeconds * 1000;
  lifecycle.onClose("running runs", () => runs.drain(drainMs), { waitMs: drainMs + runsDrainMs });
  runs.start();
  await webhooks.start();
  const urls = { baseUrl: ownUrls.urls.baseUrl, localUrl: localUrlOf(config, port) };
  const { keys } = identity;
  await bootstrap({ db, keys, file: settings.paths.bootstrapFile, ...urls, clock, log });

  queue = await openBuildsOver(settings, { ...areas, trial: scheduler });
  startRollOuts({ ...foundation, ...calls, ...identity.membership, routes });
  const backups = openBackups(config, foundation);
  await lifecycle.start();
  health.serve(lifecycle, () => listener.isShared || listener.holdBack !== null);
  await openMetrics(config, {
    ...foundation,
    ...calls,
    webhooks,
    counts,
    queue,
    disk,
    driver,
    health,
    guard,
    backups,
    certificates: tls?.certificates ?? null,
    acme: management.managed?.keeper ?? null,
  });
  return { baseUrl: urls.baseUrl, lost, listener, replicas: () => countReplicas(scheduler) };
}

type Areas = { readonly foundation: Foundation; readonly management: OpenedManagement };

type CallsOverParts = Areas & {
  readonly storeRefusal: () => string | null;
  readonly onStep: OnStep;
};

/** Opens proxy, scheduler and runs, with what they use of the management. */
function openCallsOver(
  settings: Settings,
  { foundation, management, ...parts }: CallsOverParts,
): ReturnType<typeof openCalls> {
  const { opened, identity, limits, receiver, routes, webhooks, guard, ownerKeyOf } = management;
  const { domainNames } = management;
  const { useCases, appLogs } = management.api;
  return openCalls(settings, {
    ...foundation,
    ...limits,
    ...parts,
    tokens: identity.tokens,
    routes,
    appHosts: allHosts(settings.appHosts, domainNames),
    driver: opened.driver,
    webhooks,
    guard,
    ownerKeyOf,
    builds: receiver,
    lines: appLogs,
    environmentOf: (appId) => useCases.secrets.environmentOf(appId),
  });
}

/** The apps by all their host names: those below the apps' parent, and their domains. */
function allHosts(
  appHosts: AppHosts,
  domainNames: Pick<AppHosts, "appOf">,
): Pick<AppHosts, "appOf"> {
  return { appOf: (host) => appHosts.appOf(host) ?? domainNames.appOf(host) };
}

/** Opens the queue of builds, with what it uses of the management. */
function openBuildsOver(
  settings: Settings,
  { foundation, management, trial }: Areas & { readonly trial: TrialStarter },
): Promise<BuildQueue> {
  const { opened, routes, guard } = management;
  const { useCases, buildLogs } = management.api;
  return openBuilds(settings, {
    ...foundation,
    credentials: useCases.credentials,
    secretsOf: (appId) => useCases.secrets.environmentOf(appId),
    driver: opened.driver,
    builder: opened.builder,
    guard,
    buildLogs,
    trial,
    refreshRoute: (appId) => routes.refresh(appId),
  });
}

function countReplicas(scheduler: Scheduler): number {
  return Object.values(scheduler.replicaCounts()).reduce((sum, count) => sum + count, 0);
}

/** The platform's own URLs, which are known only once it listens. */
class OwnUrls {
  #urls: Urls | null = null;

  get urls(): Urls {
    return must(this.#urls, "the platform listens");
  }

  set urls(urls: Urls) {
    this.#urls = urls;
  }
}

type ListenParts = Awaited<ReturnType<typeof openCalls>> & {
  readonly management: OpenedManagement;
  readonly health: Health;
  readonly ownUrls: OwnUrls;
  readonly lifecycle: Lifecycle;
};

/** Opens the management API, and the listener in front of it and the proxy. */
async function listen(config: Config, listenParts: ListenParts): ReturnType<typeof openListener> {
  const { management, scheduler, proxy, runUseCases, lifecycle, ownUrls, ...parts } = listenParts;
  const stopping = new AbortController();
  let certificates: Certificates | null = null;
  const api = await openApi(config, {
    ...management.api,
    ...parts,
    runs: runUseCases,
    lifecycle,
    stopping: stopping.signal,
    waitReason: (appId) => scheduler.waitReason(appId),
    buildWaitReason: (appId) => scheduler.buildWaitReason(appId),
    certificateFiles: () => certificates?.files() ?? [],
  });
  const { log, useCases } = management.api;
  const sockets = new LogSockets({ api, builds: useCases.builds, clock, log });
  const opened = await openListener(config, {
    proxy,
    managed: management.managed,
    lifecycle,
    clock,
    log,
    fallback: (request, response) => api.routing(request, response),
    fallbackUpgrade: {
      takes: (url) => isLogSocket(url) || isExecSocket(url),
      take: (request, socket, firstBytes) => {
        if (isExecSocket(request.url ?? "")) takeExecSocket(api, { request, socket, firstBytes });
        else sockets.take(request, socket, firstBytes);
      },
    },
  });
  certificates = opened.tls?.certificates ?? null;
  // Live logs are ended, since they would keep the listener open until their builds end.
  lifecycle.onClose("live logs", () => stopping.abort(new Error("the platform is stopping")));
  ownUrls.urls = urlsOf(config, opened.port);
  return opened;
}

/**
 * The URL of the platform on its own machine. If the platform listens on all addresses, the
 * loopback address is one of them.
 */
function localUrlOf({ host }: Config, port: number): string {
  if (host === "0.0.0.0" || host === "::") return `http://127.0.0.1:${port}`;
  // A host with a colon is an IPv6 address, which needs brackets in a URL.
  const hostInUrl = host.includes(":") ? `[${host}]` : host;
  return `http://${hostInUrl}:${port}`;
}

function urlsOf(config: Config, port: number): Urls {
  const baseUrl = config.publicUrl ?? localUrlOf(config, port);
  return {
    baseUrl,
    apiUrl: baseUrl,
    dashboardUrl: `${baseUrl}/dashboard`,
    appHosts: config.appHosts,
  };
}
