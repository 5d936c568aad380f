// Opens the certificates that the platform gets by itself, if the settings ask for them, and says
// for which names: a part of `platform.ts`.
import { CertificateUseCases } from "#acme/certificate-use-cases.ts";
import type { NameSource } from "#acme/name-source.ts";
import { openAcme, type OpenedAcme } from "#acme/open.ts";
import type { Routes } from "#apps/routes.ts";
import type { DomainNames } from "#domains/domain-names.ts";
import type { AppOfHost } from "#lib/app-hosts.ts";
import type { ProjectId } from "#lib/ids.ts";
import { isAddressOrLocalhost } from "#lib/nameless-host.ts";
import type { Mailer } from "#people/mailer.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Config } from "./config.ts";

type Parts = Foundation & {
  readonly routes: Routes;
  /** The domains of apps that have been proven. */
  readonly domainNames: Pick<DomainNames, "names" | "appOf" | "onChange">;
  /** Null: mail is not configured. */
  readonly mail: Mailer | null;
};

type Settings = Pick<Config, "tls" | "publicUrl" | "appHosts" | "toolEnvironment">;

/** Certificates that the platform gets by itself. */
type OwnCertificates = Pick<OpenedAcme, "useCases"> & {
  /** Null: none are requested. */
  readonly managed: OpenedAcme | null;
};

/** Opens the certificates that the platform gets by itself. Throws `CannotStart`. */
export async function openOwnCertificates(
  config: Settings,
  { routes, domainNames, mail, ...foundation }: Parts,
): Promise<OwnCertificates> {
  const { tls, publicUrl, appHosts, toolEnvironment } = config;
  if (tls === null || tls.acme === null || publicUrl === null) {
    const useCases = new CertificateUseCases({ ...foundation, keeper: null });
    return { useCases, managed: null };
  }
  const { hostname } = new URL(publicUrl);
  const { wildcard } = appHosts;
  // A certificate for the wildcard also covers apps that do not exist yet, but authorities issue it
  // only for a proof by DNS records.
  const hasWildcard = tls.acme.dns !== null && wildcard !== null;
  // An address is never requested: readTls has seen to it that there are files then.
  const own = isAddressOrLocalhost(hostname) ? [] : [hostname];
  const platform = fixedNames(hasWildcard ? [...own, wildcard] : own);
  const apps = hasWildcard || wildcard === null ? [] : [namesOfApps(publicUrl, appHosts, routes)];
  // The owners of these domains manage their DNS, not the operator.
  const domains: NameSource = {
    zone: "foreign",
    names: () => domainNames.names(),
    projectOf: (name) => projectOf(domainNames.appOf(name)),
    onChange: (listener) => domainNames.onChange(listener),
  };
  const sources = [platform, domains, ...apps];
  const managed = await openAcme(
    { ...tls.acme, toolEnvironment },
    { ...foundation, sources, mail },
  );
  return { useCases: managed.useCases, managed };
}

/** The project in what a host name stands for. */
function projectOf(app: AppOfHost | null): ProjectId | null {
  return app === null ? null : (app.projectId as ProjectId);
}

/** Names that stay the same while the platform runs. */
function fixedNames(names: readonly string[]): NameSource {
  return {
    zone: "own",
    names: () => names,
    projectOf: () => null,
    onChange: () => () => undefined,
  };
}

/** The host name of each app that exists. */
function namesOfApps(
  publicUrl: string,
  appHosts: Settings["appHosts"],
  routes: Routes,
): NameSource {
  const hostOf = (app: { projectId: string; appName: string }): string[] => {
    const url = appHosts.urlOf(publicUrl, app);
    return url === null ? [] : [new URL(url).hostname];
  };
  const known = new Set<string>();
  return {
    zone: "own",
    names: () => routes.all().flatMap(hostOf).toSorted(),
    projectOf: (name) => projectOf(appHosts.appOf(name)),
    // Routes change with each release; only a new app is news here.
    onChange: (listener) =>
      routes.onChange((appId) => {
        if (known.has(appId) || routes.byAppId(appId) === undefined) return;
        known.add(appId);
        listener();
      }),
  };
}
