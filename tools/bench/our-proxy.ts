// Our proxy as a separate process for the benchmark: the real listener and proxy with
// authentication, routing, limits and metrics enabled, in front of the benchmark's upstream as its
// replicas. Arguments: port of the upstream; for the encrypted port, the files of a certificate and
// of its key.
import { Certificates } from "@slipway/server/src/proxy/certificates.ts";
import { Proxy } from "@slipway/server/src/proxy/proxy.ts";
import { createListener } from "@slipway/server/src/proxy/server.ts";
import { systemClock } from "@slipway/server/src/lib/clock.ts";
import { silentLog } from "@slipway/server/src/lib/log.ts";
import { TrustedProxies } from "@slipway/server/src/lib/trusted-proxies.ts";
import { noOtherSockets, proxyAlone } from "@slipway/server/test/support/proxy-alone.ts";
import { ReplicaView } from "@slipway/server/src/scheduler/replica-view.ts";
import { benchAppId, benchRoute, benchReplica, benchToken, benchTokens } from "./bench-app.ts";

const [, , upstreamPort, certificateFile = "", keyFile = ""] = process.argv;
const isEncrypted = certificateFile !== "";
const view = new ReplicaView();
const routes = new Map([[`${benchRoute.projectId}/${benchRoute.appName}`, benchRoute]]);
const trustedProxies = new TrustedProxies([]);
const proxy = new Proxy({
  ...proxyAlone,
  routes: {
    find: (projectId, appName) => routes.get(`${projectId}/${appName}`),
    byAppId: (appId) => (appId === benchAppId ? benchRoute : undefined),
    refresh: () => Promise.resolve(),
  },
  tokens: benchTokens(benchToken),
  view,
  trustedProxies,
  nudge: () => undefined,
  limits: { lineLengthMax: 1000, bodyBytesMax: 512_000_000 },
  log: silentLog,
});
view.put(benchAppId, { ready: [benchReplica(Number(upstreamPort))], failure: undefined });
const listener = createListener({
  fallbackUpgrade: noOtherSockets,
  isAppHost: (host) => proxy.admission.isAppHost(host),
  handle: (request, response) => proxy.handle(request, response),
  handlePlain: (client, request) => proxy.handleRead(client, request),
  upgrade: (request, socket, firstBytes) => proxy.upgrade(request, socket, firstBytes),
  fallback: (_request, response) => response.writeHead(404).end(),
  ...(isEncrypted ? { tls: tlsParts() } : {}),
  trustedProxies,
  clock: systemClock,
});
const at = { host: "127.0.0.1", port: 0 };
const { port } = isEncrypted ? await listener.listenTls(at) : await listener.listen(at);
process.stdout.write(`listening ${port}\n`);
process.once("SIGTERM", () => {
  proxy.close();
  void listener.close();
});

function tlsParts() {
  const parts = { log: silentLog, clock: systemClock };
  const certificates = new Certificates([{ certificateFile, keyFile }], parts);
  const handleRead = proxy.handleRead.bind(proxy);
  return { certificates, handleRead, redirect: null };
}
