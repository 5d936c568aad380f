// Opens the domains of apps: the use cases, the checks, and the proven names in memory.
import type { AppHosts } from "#lib/app-hosts.ts";
import type { Foundation } from "#store/foundation.ts";
import { DomainChecks } from "./domain-checks.ts";
import { DomainLookup } from "./domain-lookup.ts";
import { DomainNames } from "./domain-names.ts";
import type { PlatformNames } from "./domain-name.ts";
import { Domains } from "./domains.ts";

export type DomainSettings = {
  /** The name servers to ask, as address or address:port; empty: those of the machine. */
  readonly dnsServers: readonly string[];
  readonly appHosts: AppHosts;
  readonly publicUrl: string | null;
};

type Parts = Foundation & {
  /** Not called before the platform listens. */
  readonly platformNames: () => PlatformNames;
};

/** Resolves when the proven names are loaded; the checks begin when the platform starts. */
export async function openDomains(
  { dnsServers, appHosts, publicUrl }: DomainSettings,
  parts: Parts,
) {
  const { lifecycle, clock, platformNames } = parts;
  const ownHost = publicUrl === null ? null : new URL(publicUrl).hostname;
  const names = new DomainNames({ ...parts, ownHost });
  await names.start();
  lifecycle.onClose("proven domains", () => names.stop());
  const checks = new DomainChecks({
    ...parts,
    appHosts,
    lookup: new DomainLookup({ dnsServers, clock }),
  });
  checks.loop.startWithin(lifecycle);
  return { names, domains: new Domains({ ...parts, checks, platformNames }) };
}
