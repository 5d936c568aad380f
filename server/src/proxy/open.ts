// Opens the proxy, and the platform's only listener, which passes requests to the proxy and to the
// management API.
import type { IncomingMessage, ServerResponse } from "node:http";
import { isIP, SocketAddress, type AddressInfo } from "node:net";
import { CannotStart } from "#lib/cannot-start.ts";
import type { AppHosts } from "#lib/app-hosts.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import type { ProxyOptions } from "./proxy-options.ts";
import { Proxy } from "./proxy.ts";
import { createListener, type FallbackUpgrade, type Listener } from "./server.ts";

export type ProxySettings = {
  readonly trustedProxies: TrustedProxies;
  readonly appHosts: AppHosts;
  /** How many calls of an app may wait for a replica. */
  readonly lineLength: number;
  /** The maximum body size of a call. */
  readonly bodyLimitBytes: number;
};

export type ListenerSettings = {
  readonly host: string;
  readonly port: number;
  /** The descriptor of a listening socket, which is used if it is at this address; null: none. */
  readonly inheritedSocket: number | null;
  /** How long calls may keep running when the platform stops. */
  readonly drainSeconds: number;
  readonly trustedProxies: TrustedProxies;
};

type ProxyParts = Omit<ProxyOptions, "limits" | "trustedProxies" | "appHosts"> & {
  readonly lifecycle: Lifecycle;
};

type ListenerParts = {
  readonly fallbackUpgrade: FallbackUpgrade;
  readonly proxy: Proxy;
  /** Handles requests that name no app. */
  readonly fallback: (request: IncomingMessage, response: ServerResponse) => void;
  readonly lifecycle: Lifecycle;
  readonly clock: Clock;
  readonly log: Log;
};

/** The extra time to close connections, after the time for running calls. */
const listenerCloseMs = 10_000;

/** Creates the proxy; it takes calls once a listener passes them to it. */
export function openProxy(settings: ProxySettings, { lifecycle, ...parts }: ProxyParts): Proxy {
  const { trustedProxies, appHosts, lineLength, bodyLimitBytes } = settings;
  const limits = { lineLengthMax: lineLength, bodyBytesMax: bodyLimitBytes };
  const proxy = new Proxy({ ...parts, trustedProxies, appHosts, limits });
  lifecycle.onClose("proxy", () => proxy.close());
  return proxy;
}

/** Listens; returns also the port. Throws `CannotStart` when the address is not available. */
export async function openListener(
  settings: ListenerSettings,
  parts: ListenerParts,
): Promise<{ readonly listener: Listener; readonly port: number }> {
  const { host, port, drainSeconds, trustedProxies } = settings;
  const { proxy, fallback, fallbackUpgrade, lifecycle, clock, log } = parts;
  const listener = createListener({
    isAppHost: (host) => proxy.admission.isAppHost(host),
    handle: (request, response) => proxy.handle(request, response),
    handlePlain: (client, request) => proxy.handlePlain(client, request),
    upgrade: (request, socket, firstBytes) => proxy.upgrade(request, socket, firstBytes),
    fallback,
    fallbackUpgrade,
    trustedProxies,
    clock,
  });
  const drainMs = drainSeconds * 1000;
  try {
    const address =
      (await listenOnInherited(listener, settings, log)) ?? (await listener.listen({ host, port }));
    lifecycle.onCloseLast("listener", () => listener.close());
    lifecycle.onClose("running calls", () => listener.drain({ drainMs }), {
      waitMs: drainMs + listenerCloseMs,
    });
    return { listener, port: address.port };
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    const reason = error.code === "EADDRINUSE" ? "another program has that port" : error.message;
    const remedy =
      settings.inheritedSocket === null
        ? "Set SLIPWAY_HOST or SLIPWAY_PORT."
        : "If it is slipway.socket, which has other settings: sudo slipway service install";
    const message = `The platform cannot listen on ${host}, port ${port}: ${reason}. ${remedy}`;
    throw new CannotStart(message, { cause: error });
  }
}

/** Null: there is no inherited socket, or it listens elsewhere than the settings say. */
async function listenOnInherited(
  listener: Listener,
  { host, port, inheritedSocket: descriptor }: ListenerSettings,
  log: Log,
): Promise<AddressInfo | null> {
  if (descriptor === null) return null;
  const address = await listener.listen({ descriptor });
  if (isAt(address, host) && (port === 0 || address.port === port)) return address;
  await listener.close();
  log.warn(
    { host: address.address, port: address.port },
    "the socket that the platform was started with is not at SLIPWAY_HOST and SLIPWAY_PORT, and is not used: a restart refuses calls; to renew slipway.socket: sudo slipway service install",
  );
  return null;
}

/** A name is not compared. */
function isAt({ address }: AddressInfo, host: string): boolean {
  if (isIP(host) === 0) return true;
  const family = isIP(host) === 6 ? "ipv6" : "ipv4";
  return new SocketAddress({ address: host, family }).address === address;
}
