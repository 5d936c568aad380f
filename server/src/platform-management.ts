// Opens the areas behind the management API, except those that handle calls and builds: accounts,
// plans, apps, logs, the driver, volumes, webhooks, pushes, billing and the audit log. A part of
// `platform.ts`; tests of the API open the same areas, with a driver of their own.
import type { FastifyInstance } from "fastify";
import { openSigningKeys, openTokens } from "#accounts/open.ts";
import { ownerKeys } from "#accounts/owner-keys.ts";
import type { ApiParts } from "#api/parts.ts";
import { createApi } from "#api/server.ts";
import { appEndpoint, buildPage, type Urls } from "#api/urls.ts";
import { openApps } from "#apps/open.ts";
import { openAudit } from "#audit/open.ts";
import { openBilling, openPlans } from "#billing/open.ts";
import type { MeterStep } from "#billing/usage/meter-step.ts";
import { openDomains } from "#domains/open.ts";
import { openUploads } from "#deploy/open.ts";
import { endPushes, requestCancel } from "#deploy/end-builds.ts";
import { rebuild, receiveBuild, receiveUpload, receiveSettings } from "#deploy/receive.ts";
import { isAddressOrLocalhost } from "#lib/nameless-host.ts";
import { openLogs } from "#logs/open.ts";
import { openMembership, openPeople } from "#people/open.ts";
import type { PushPages } from "#pushes/commit-statuses.ts";
import { openPushes } from "#pushes/open.ts";
import { openFileRuns } from "#runs/open.ts";
import type { RunStep } from "#runs/run-steps.ts";
import type { Foundation } from "#store/foundation.ts";
import { openVolumes } from "#volumes/open.ts";
import { openWebhooks } from "#webhooks/open.ts";
import type { WebhookStep } from "#webhooks/webhook-step.ts";
import type { Config, dataPaths } from "./config.ts";
import { openOwnCertificates } from "./platform-acme.ts";
import { isThereHere, whyNeverHere } from "./platform-driver.ts";
import { hardwareParts } from "./platform-hardware.ts";
import type { ChosenDriver } from "./platform-driver.ts";

/** Called after each durable step of a run, a delivery or metering. */
export type OnStep = (step: RunStep | WebhookStep | MeterStep) => void;

/** The settings, and the paths inside the data folder. */
export type Settings = Config & { readonly paths: ReturnType<typeof dataPaths> };

type Parts = Foundation & {
  /** Not called before the platform listens. */
  readonly urls: () => Urls;
  /** Called once, after the apps are opened. */
  readonly openDriver: () => Promise<ChosenDriver>;
  /** Called when an artifact may have become unused. */
  readonly onUnused: () => void;
  readonly onStep: OnStep;
};

/** The opened areas. */
export type OpenedManagement = Awaited<ReturnType<typeof openManagement>>;

/** The functions that receive builds. */
const receivers = {
  receiveBuild,
  receiveUpload,
  receiveSettings,
  rebuild,
  requestCancel,
  endPushes,
};

/** Opens the areas; their loops begin with `lifecycle.start()`. */
export async function openManagement(settings: Settings, parts: Parts) {
  const { urls, openDriver, onUnused, onStep, ...foundation } = parts;
  const ownerKeyOf = ownerKeys(foundation);
  const identity = await openIdentity(settings, parts);
  const limits = await openPlans(settings, foundation);
  const { plans, planDaysOf, logDaysOf } = limits;
  const receiver = limits.receiverOver(receivers);
  const { routes, useCases } = await openApps(settings, {
    ...foundation,
    receiver,
    personChanged: identity.personChanged,
    onRemoved: onUnused,
    // The next two functions are called only after `opened` below is set.
    whyNever: (wish, advised) => whyNeverHere(opened.driver, wish, advised),
    isThere: (artifact) => isThereHere(opened.builder, artifact),
  });
  const logs = openLogs(settings, { ...foundation, daysOf: logDaysOf });

  const opened = await openDriver();
  const { disk } = opened;
  const volumes = await openVolumes(settings, { ...foundation, ...opened, ownerKeyOf });
  const { webhooks, guard } = openWebhooks(settings, { ...foundation, ownerKeyOf, onStep });
  const pushes = openPushes(settings, {
    ...foundation,
    builds: receiver,
    guard,
    findCredential: (projectId, host) => useCases.credentials.forFetch(projectId, host),
    pages: pagesAt(urls),
  });
  const { names: domainNames, domains } = await openDomains(settings, {
    ...foundation,
    platformNames: () => {
      const { baseUrl, appHosts } = urls();
      return { host: new URL(baseUrl).hostname, parent: appHosts.parent };
    },
  });
  const mail = identity.people.mailer;
  const billing = openBilling(settings, {
    ...foundation,
    plans: plans.useCases,
    guard,
    mail,
    onStep,
  });
  const { keys: signer } = identity;
  const certificates = await openOwnCertificates(settings, {
    ...foundation,
    routes,
    domainNames,
    mail,
  });
  const audit = openAudit(settings, { ...foundation, signer, guard, planDaysOf });
  return {
    opened,
    identity,
    limits,
    receiver,
    routes,
    domainNames,
    webhooks,
    guard,
    ownerKeyOf,
    managed: certificates.managed,
    /** The parts that the API uses. */
    api: {
      ...identity,
      ...logs,
      ...volumes,
      ...billing,
      ...audit,
      ...pushes,
      domains,
      ...hardwareParts(opened.driver, billing.priceOf, foundation),
      useCases,
      plans,
      ownerKeyOf,
      uploads: await openUploads(settings, { ...foundation, disk, ownerKeyOf }),
      fileRuns: openFileRuns(settings, useCases),
      certificates: certificates.useCases,
      webhooks: webhooks.useCases,
      log: foundation.log,
      clock: foundation.clock,
      urls,
    },
  };
}

/** The addresses that reports of a push contain. */
function pagesAt(urls: () => Urls): PushPages {
  return {
    appEndpoint: (projectId, name) => appEndpoint(urls(), projectId, name),
    buildPage: (build) => buildPage(urls(), build),
  };
}

/** Opens the parts that identify callers: signing keys, people, tokens and memberships. */
async function openIdentity(settings: Settings, { urls, ...foundation }: Parts) {
  const keys = await openSigningKeys(foundation);
  const people = await openPeople(settings, {
    ...foundation,
    keys,
    baseUrl: () => urls().baseUrl,
  });
  const tokens = openTokens(settings, { ...foundation, keys, people: people.lookup });
  const { personChanged } = tokens;
  const membership = openMembership(foundation, { people, personChanged });
  return { ...tokens, keys, people, membership };
}

type ApiSetting = "deploysPerMinute" | "announcements" | "requestsPerMinute" | "trustedProxies";

/** Opens the management API, which does not listen yet. */
export async function openApi(
  config: Pick<Config, ApiSetting | "publicUrl" | "tls">,
  {
    lifecycle,
    ...parts
  }: Omit<ApiParts, ApiSetting | "hstsSeconds" | "pagesHost"> & Pick<Foundation, "lifecycle">,
): Promise<FastifyInstance> {
  const { deploysPerMinute, announcements, requestsPerMinute, trustedProxies } = config;
  const api = createApi({
    ...parts,
    deploysPerMinute,
    announcements,
    requestsPerMinute,
    trustedProxies,
    hstsSeconds: config.tls?.hstsSeconds ?? 0,
    pagesHost: pagesHostOf(config),
  });
  await api.ready();
  lifecycle.onClose("api", () => api.close());
  return api;
}

/**
 * The only name at which pages are served. Null where the platform has no HTTPS port: people may
 * open it at any name of their network, or through a proxy that sends a name of its own choice.
 */
function pagesHostOf({ publicUrl, tls }: Pick<Config, "publicUrl" | "tls">): string | null {
  if (publicUrl === null || tls === null) return null;
  const { hostname } = new URL(publicUrl);
  return isAddressOrLocalhost(hostname) ? null : hostname;
}
