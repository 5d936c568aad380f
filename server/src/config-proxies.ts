// Reads which proxies stand in front of the platform, and how they say whose connections they pass
// on.
import { appRanges } from "#drivers/app-ranges.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import type { SettingReader } from "./config-table.ts";

type ProxiesReader = Pick<SettingReader, "refuse"> & {
  readonly ranges: readonly string[];
  readonly proxyProtocol: boolean;
  /** The address that the platform listens on. */
  readonly host: string;
};

/** The settings of proxies before the platform. */
export function readProxies({ refuse, ranges, proxyProtocol, host }: ProxiesReader) {
  const trustedProxies = new TrustedProxies(ranges, appRanges);
  if (proxyProtocol && ranges.length === 0)
    refuse("SLIPWAY_PROXY_PROTOCOL is set, but SLIPWAY_TRUSTED_PROXIES is not.");
  // From these addresses, commands on this machine connect, which send no header.
  const own = ["127.0.0.1", "::1", host].find((address) => trustedProxies.has(address));
  if (proxyProtocol && own !== undefined)
    refuse(
      `SLIPWAY_TRUSTED_PROXIES contains ${own}, from which commands on this machine connect without the header that SLIPWAY_PROXY_PROTOCOL asks for. Let a proxy on this machine connect from another address, such as 127.0.0.2, and name that one.`,
    );
  return { trustedProxies, proxyProtocol };
}
