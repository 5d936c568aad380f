// Opens the proxy, and the platform's only listener, which passes requests to the proxy and to the
// management API.
import type { IncomingMessage, ServerResponse } from "node:http";
import { isIP, SocketAddress, type AddressInfo } from "node:net";
import { CannotStart } from "#lib/cannot-start.ts";
import { Loop } from "#lib/loop.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import { Certificates, type CertificateFiles } from "./certificates.ts";
import { HttpsRedirect } from "./https-redirect.ts";
import type { ManagedCertificates } from "./managed-certificates.ts";
import type { ProxyOptions } from "./proxy-options.ts";
import { Proxy } from "./proxy.ts";
import {
  createListener,
  type FallbackUpgrade,
  type Listener,
  type TlsListenerParts,
} from "./server.ts";

export type ProxySettings = {
  readonly trustedProxies: TrustedProxies;
  /** How many calls of an app may wait for a replica. */
  readonly lineLength: number;
  /** The maximum body size of a call. */
  readonly bodyLimitBytes: number;
  readonly tls: Pick<TlsSettings, "hstsSeconds"> | null;
};

type TlsSettings = {
  readonly port: number;
  readonly files: readonly CertificateFiles[];
  /** How long browsers are to use only HTTPS for a host; 0: they are not told. */
  readonly hstsSeconds: number;
  /** Plain requests of other machines are sent to the encrypted port. */
  readonly redirects: boolean;
};

export type ListenerSettings = {
  readonly host: string;
  readonly port: number;
  /**
   * The descriptor of a listening socket, which is used if it listens at `host` and `port`; null:
   * there is none.
   */
  readonly inheritedSocket: number | null;
  /** How long calls may keep running when the platform stops. */
  readonly drainSeconds: number;
  readonly trustedProxies: TrustedProxies;
  /** Connections of trusted proxies begin with a header of the PROXY protocol. */
  readonly proxyProtocol: boolean;
  /** The URL by which clients reach the platform; null: it is not set. */
  readonly publicUrl: string | null;
  /** Null: there is no encrypted port. */
  readonly tls: TlsSettings | null;
};

/** The open listener, and the ports at which it listens. */
type OpenedListener = {
  readonly listener: Listener;
  readonly port: number;
  /** Null: there is no encrypted port. */
  readonly tls: { readonly port: number; readonly certificates: Certificates } | null;
};

type ProxyParts = Omit<ProxyOptions, "limits" | "trustedProxies" | "hstsSeconds"> & {
  readonly lifecycle: Lifecycle;
};

type ListenerParts = {
  readonly fallbackUpgrade: FallbackUpgrade;
  readonly proxy: Proxy;
  /** Handles requests that name no app. */
  readonly fallback: (request: IncomingMessage, response: ServerResponse) => void;
  /** Certificates that the platform gets by itself; null: it gets none. */
  readonly managed: ManagedCertificates | null;
  readonly lifecycle: Lifecycle;
  readonly clock: Clock;
  readonly log: Log;
};

/** How often the files of certificates are read. */
const certificatesEveryMs = 10_000;
/** The extra time to close connections, after the time for running calls. */
const listenerCloseMs = 10_000;

/** Creates the proxy; it takes calls once a listener passes them to it. */
export function openProxy(settings: ProxySettings, { lifecycle, ...parts }: ProxyParts): Proxy {
  const { trustedProxies, lineLength, bodyLimitBytes, tls } = settings;
  const hstsSeconds = tls?.hstsSeconds ?? 0;
  const limits = { lineLengthMax: lineLength, bodyBytesMax: bodyLimitBytes };
  const proxy = new Proxy({ ...parts, trustedProxies, limits, hstsSeconds });
  lifecycle.onClose("proxy", () => proxy.close());
  return proxy;
}

/** Listens. Throws `CannotStart` when an address or a certificate cannot be used. */
export async function openListener(
  settings: ListenerSettings,
  parts: ListenerParts,
): Promise<OpenedListener> {
  const { host, port, drainSeconds, trustedProxies, proxyProtocol, inheritedSocket } = settings;
  const { proxy, fallback, fallbackUpgrade, managed, lifecycle, clock, log } = parts;
  const tls = openTls(settings, parts);
  const listener = createListener({
    isAppHost: (host) => proxy.admission.isAppHost(host),
    handle: (request, response) => proxy.handle(request, response),
    handlePlain: (client, request) => proxy.handleRead(client, request),
    upgrade: (request, socket, firstBytes) => proxy.upgrade(request, socket, firstBytes),
    fallback,
    fallbackUpgrade,
    proofs: managed?.proofs ?? null,
    ...(tls === null ? {} : { tls }),
    trustedProxies,
    ...(proxyProtocol ? { announcements: { log } } : {}),
    clock,
  });
  const drainMs = drainSeconds * 1000;
  lifecycle.onCloseLast("listener", () => listener.close());
  lifecycle.onClose("running calls", () => listener.drain({ drainMs }), {
    waitMs: drainMs + listenerCloseMs,
  });
  const remedy =
    inheritedSocket === null
      ? "Set SLIPWAY_HOST or SLIPWAY_PORT."
      : "If it is slipway.socket, which has other settings: sudo slipway service install";
  const address = await listenAt(
    { host, port, remedy },
    async (at) => (await listenOnInherited(listener, settings, log)) ?? listener.listen(at),
  );
  if (settings.tls === null || tls === null) return { listener, port: address.port, tls: null };
  const tlsAt = {
    host,
    port: settings.tls.port,
    remedy: "Set SLIPWAY_HOST or SLIPWAY_TLS_PORT.",
  };
  const tlsAddress = await listenAt(tlsAt, (at) => listener.listenTls(at));
  const { certificates } = tls;
  return { listener, port: address.port, tls: { port: tlsAddress.port, certificates } };
}

/** Reads the certificates, and reads them again as long as the platform runs. */
function openTls(
  { tls, publicUrl, trustedProxies }: ListenerSettings,
  { proxy, managed, lifecycle, clock, log }: ListenerParts,
): TlsListenerParts | null {
  if (tls === null) return null;
  const standardName = publicUrl === null ? "" : new URL(publicUrl).hostname;
  const use = managed === null ? null : { source: managed, standardName };
  const certificates = new Certificates(tls.files, { managed: use, log, clock });
  const turn = (): Promise<void> => certificates.look();
  const name = "certificates";
  new Loop({ name, turn, intervalMs: certificatesEveryMs, clock, log }).startWithin(lifecycle);
  return {
    certificates,
    handleRead: (client, call) => proxy.handleRead(client, call),
    redirect:
      tls.redirects && publicUrl !== null ? new HttpsRedirect({ publicUrl, trustedProxies }) : null,
  };
}

type ListenAt = { readonly host: string; readonly port: number; readonly remedy: string };

async function listenAt(
  { host, port, remedy }: ListenAt,
  listen: (at: { host: string; port: number }) => Promise<{ readonly port: number }>,
): Promise<{ readonly port: number }> {
  try {
    return await listen({ host, port });
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    const reason = error.code === "EADDRINUSE" ? "another program has that port" : error.message;
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

/** Whether the address is that of `host`; a host name is not compared, and always fits. */
function isAt({ address }: AddressInfo, host: string): boolean {
  if (isIP(host) === 0) return true;
  // `SocketAddress` writes each IPv6 address in the one form that `address` has, too.
  const family = isIP(host) === 6 ? "ipv6" : "ipv4";
  return new SocketAddress({ address: host, family }).address === address;
}
