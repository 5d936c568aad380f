// The only assembler: opens each area with exactly what it uses, in the order of this file. Closing
// runs in reverse, so loops end before the parts they use.
import { openSigningKeys, openTokens } from "#accounts/open.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import { ownerKeys } from "#accounts/owner-keys.ts";
import { takeExecSocket, isExecSocket } from "#api/exec-upgrade.ts";
import { isLogSocket, LogSockets } from "#api/log-sockets.ts";
import type { ApiParts } from "#api/parts.ts";
import { createApi } from "#api/server.ts";
import { appEndpoint, buildPage, type Urls } from "#api/urls.ts";
import { openApps } from "#apps/open.ts";
import type { UseCases } from "#apps/use-cases.ts";
import { openAudit } from "#audit/open.ts";
import { openBilling, openPlans } from "#billing/open.ts";
import type { MeterStep } from "#billing/usage/meter-step.ts";
import { openBuilds, openUploads } from "#deploy/open.ts";
import { endPushes, requestCancel } from "#deploy/end-builds.ts";
import { rebuild, receiveBuild, receiveUpload, receiveSettings } from "#deploy/receive.ts";
import { startRollOuts } from "#deploy/roll-out-loop.ts";
import { must } from "#lib/assert.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { isDiskFull } from "#lib/disk-full.ts";
import type { AppId } from "#lib/ids.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import { steadyClock } from "#lib/steady-clock.ts";
import { openLogs } from "#logs/open.ts";
import { openMembership, openPeople, type OpenedMembership } from "#people/open.ts";
import type { People } from "#people/people.ts";
import { openListener } from "#proxy/open.ts";
import type { Proxy } from "#proxy/proxy.ts";
import type { PushPages } from "#pushes/commit-statuses.ts";
import { openPushes } from "#pushes/open.ts";
import { openFileRuns } from "#runs/open.ts";
import type { RunStep } from "#runs/run-steps.ts";
import type { Scheduler } from "#scheduler/scheduler.ts";
import type { Foundation } from "#store/foundation.ts";
import { openStore } from "#store/open.ts";
import { openVolumes } from "#volumes/open.ts";
import { openWebhooks } from "#webhooks/open.ts";
import type { WebhookStep } from "#webhooks/webhook-step.ts";
import { bootstrap } from "./bootstrap.ts";
import { dataPaths, type Config } from "./config.ts";
import { openCalls } from "./platform-calls.ts";
import { isThereHere, openChosenDriver, whyNeverHere } from "./platform-driver.ts";
import { fullDiskText, releaseReserve } from "./platform-full-disk.ts";
import { hardwareParts } from "./platform-hardware.ts";
import { Health } from "./platform-health.ts";
import { openMetrics } from "./platform-metrics.ts";
import { sealedColumns } from "./platform-sealed.ts";

/** A running platform. */
export type Platform = {
  /** Base URL without a trailing slash. */
  readonly baseUrl: string;
  /**
   * Resolves, with a message for the operator, when the platform must stop: another one has taken
   * over its database.
   */
  readonly lost: Promise<string>;
  /** How many replicas run, also once it has stopped. */
  replicas(): number;
  /**
   * Stops accepting calls, lets running ones end, closes everything. Replicas keep running; the
   * next start adopts them.
   */
  stop(): Promise<void>;
};

/** Called after each durable step of a run, a delivery or metering. */
export type OnStep = (step: RunStep | WebhookStep | MeterStep) => void;

const clock = steadyClock;

/**
 * Starts everything. Throws `CannotStart` with a remedy, after closing whatever is already open.
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

function usedByBuilds({ credentials, secrets }: UseCases) {
  return { credentials, secretsOf: (appId: AppId) => secrets.environmentOf(appId) };
}

type Identity = ReturnType<typeof openTokens> & {
  readonly keys: SigningKeys;
  readonly people: People;
  readonly membership: OpenedMembership;
};

type Given = { readonly log: Log; readonly lifecycle: Lifecycle; readonly onStep: OnStep };

/** How builds are received. */
const receivers = {
  receiveBuild,
  receiveUpload,
  receiveSettings,
  rebuild,
  requestCancel,
  endPushes,
};

/** Opens what says who calls: signing keys, people, tokens and memberships. */
async function openIdentity(
  settings: Config,
  foundation: Foundation,
  reached: Reached,
): Promise<Identity> {
  const keys = await openSigningKeys(foundation);
  const people = await openPeople(settings, {
    ...foundation,
    keys,
    baseUrl: () => reached.urls.baseUrl,
  });
  const tokens = openTokens(settings, { ...foundation, keys, people: people.lookup });
  const { personChanged } = tokens;
  const membership = openMembership(foundation, { people, personChanged });
  return { ...tokens, keys, people, membership };
}

async function assemble(
  config: Config,
  { onStep, ...given }: Given,
): Promise<Omit<Platform, "stop">> {
  const settings = { ...config, paths: dataPaths(config.dataDir) };
  await releaseReserve(config.dataDir);
  const storeParts = { ...given, clock, sealedColumns };
  const { lost, counts, ...foundation } = await openStore(settings, storeParts);
  const { db, lifecycle, log } = foundation;
  const ownerKeyOf = ownerKeys(foundation);
  const reached = new Reached();

  const identity = await openIdentity(settings, foundation, reached);
  const { keys, people, tokens, personChanged, membership } = identity;
  const limits = await openPlans(settings, foundation);
  const { plans, planDaysOf, logDaysOf } = limits;
  const receiver = limits.receiverOver(receivers);
  const { routes, useCases, removal } = await openApps(settings, {
    ...foundation,
    receiver,
    personChanged,
    onRemoved: () => queue.noteUnused(),
    whyNever: (wanted, advised) => whyNeverHere(driver, wanted, advised),
    isThere: (artifact) => isThereHere(builder, artifact),
  });
  const logs = openLogs(settings, { ...foundation, daysOf: logDaysOf });

  const chosen = await openChosenDriver(settings, foundation);
  const { driver, builder, disk } = chosen;
  const volumes = await openVolumes(settings, { ...foundation, ...chosen, ownerKeyOf });
  // An external database has a disk of its own.
  const storeRefusal = (): string | null =>
    config.databaseUrl === null ? disk.storeRefusal() : null;
  const { webhooks, guard } = openWebhooks(settings, { ...foundation, ownerKeyOf, onStep });
  const pushes = openPushes(settings, {
    ...foundation,
    builds: receiver,
    guard,
    findCredential: (projectId, host) => useCases.credentials.forFetch(projectId, host),
    pages: pagesOf(reached),
  });
  const calls = await openCalls(settings, {
    ...foundation,
    ...limits,
    tokens,
    routes,
    driver,
    storeRefusal,
    webhooks,
    guard,
    onStep,
    ownerKeyOf,
    builds: receiver,
    lines: logs.appLogs,
    environmentOf: (appId) => useCases.secrets.environmentOf(appId),
  });
  const { scheduler, runs } = calls;
  const money = { ...foundation, plans: plans.useCases, guard, mail: people.mailer, onStep };
  const billing = openBilling(settings, money);
  const audit = await openAudit(settings, { ...foundation, signer: keys, guard, planDaysOf });

  const health = new Health({ db, clock, storeRefusal });
  const uploads = await openUploads(settings, { ...foundation, disk, ownerKeyOf });
  const port = await openApi(config, {
    ...identity,
    ...billing,
    ...audit,
    ...logs,
    ...volumes,
    ...calls,
    useCases,
    plans,
    ownerKeyOf,
    uploads,
    health,
    reached,
    lifecycle,
    log,
    runs: calls.runUseCases,
    fileRuns: openFileRuns(settings, useCases),
    ...hardwareParts(driver, billing.priceOf, foundation),
    webhooks: webhooks.useCases,
    gitHooks: pushes.gitHooks,
    repositories: pushes.repositories,
  });
  guard.addOwnListener({ host: config.host, port });
  await chosen.onListening(port);
  lifecycle.onClose("waiting runs", () => runs.quiesce());
  runs.start();
  await webhooks.start();
  const urls = { baseUrl: reached.urls.baseUrl, localUrl: localUrlOf(config, port) };
  await bootstrap({ db, keys, file: settings.paths.bootstrapFile, ...urls, clock, log });

  const queue = await openBuilds(settings, {
    ...foundation,
    ...usedByBuilds(useCases),
    driver,
    builder,
    guard,
    buildLogs: logs.buildLogs,
    trial: scheduler,
    refreshRoute: (appId) => routes.refresh(appId),
  });
  await pushes.start();
  startRollOuts({ ...foundation, ...calls, ...membership, routes });
  removal.start();
  health.serve(lifecycle);
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
  });
  return { baseUrl: urls.baseUrl, lost, replicas: () => countReplicas(scheduler) };
}

function countReplicas(scheduler: Scheduler): number {
  return Object.values(scheduler.replicaCounts()).reduce((sum, count) => sum + count, 0);
}

function pagesOf(reached: Reached): PushPages {
  return {
    appEndpoint: (projectId, name) => appEndpoint(reached.urls, projectId, name),
    buildPage: (build) => buildPage(reached.urls, build),
  };
}

/** The platform's own URLs, which are known only once it listens. */
class Reached {
  #urls: Urls | null = null;

  get urls(): Urls {
    return must(this.#urls, "the platform listens");
  }

  set urls(urls: Urls) {
    this.#urls = urls;
  }
}

type ApiNeeds = Omit<
  ApiParts,
  | "stopping"
  | "urls"
  | "deploysPerMinute"
  | "announcements"
  | "requestsPerMinute"
  | "trustedProxies"
  | "waitReason"
  | "buildWaitReason"
  | "clock"
> & {
  readonly scheduler: Scheduler;
  readonly proxy: Proxy;
  readonly reached: Reached;
  readonly lifecycle: Lifecycle;
};

/** Opens the management API, and the listener in front of it and the proxy; returns the port. */
async function openApi(config: Config, given: ApiNeeds): Promise<number> {
  const { scheduler, proxy, lifecycle, reached, ...parts } = given;
  const stopping = new AbortController();
  const api = createApi({
    ...parts,
    clock,
    stopping: stopping.signal,
    urls: () => reached.urls,
    deploysPerMinute: config.deploysPerMinute,
    announcements: config.announcements,
    requestsPerMinute: config.requestsPerMinute,
    trustedProxies: config.trustedProxies,
    waitReason: (appId) => scheduler.waitReason(appId),
    buildWaitReason: (appId) => scheduler.buildWaitReason(appId),
  });
  await api.ready();
  lifecycle.onClose("api", () => api.close());
  const sockets = new LogSockets({ api, builds: parts.useCases.builds, clock, log: parts.log });
  const port = await openListener(config, {
    proxy,
    lifecycle,
    clock,
    fallback: (request, response) => api.routing(request, response),
    fallbackUpgrade: {
      takes: (url) => isLogSocket(url) || isExecSocket(url),
      take: (request, socket, firstBytes) => {
        if (isExecSocket(request.url ?? "")) takeExecSocket(api, { request, socket, firstBytes });
        else sockets.take(request, socket, firstBytes);
      },
    },
  });
  // Live logs would keep the listener open until their builds end.
  lifecycle.onClose("live logs", () => stopping.abort(new Error("the platform is stopping")));
  reached.urls = urlsOf(config, port);
  return port;
}

/** A platform that listens on all addresses is reachable at least from this machine. */
function localUrlOf({ host }: Config, port: number): string {
  if (host === "0.0.0.0" || host === "::") return `http://127.0.0.1:${port}`;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
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
