// What a proxy and its listener are given where nothing but them is tested: nobody records calls,
// accepts async ones or forwards answers.
import { AppHosts } from "#lib/app-hosts.ts";
import { systemClock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { ProxyOptions } from "#proxy/proxy-options.ts";
import type { FallbackUpgrade } from "#proxy/server.ts";

/** For a `Proxy`. */
export const proxyAlone = {
  appHosts: new AppHosts("localhost"),
  clock: systemClock,
  onFinished: () => undefined,
  brokeOff: () => Promise.resolve(null),
  refusalOf: () => null,
  asyncAccept: {
    accept: (call) => call.refuse(new Fault("unavailable", "No run is accepted here.")),
  },
  forwarding: {
    check: () => new Fault("unavailable", "No answer is forwarded here."),
    forward: () => undefined,
    bytesMax: 0,
  },
} satisfies Partial<ProxyOptions>;

/** For a listener: takes no other WebSockets. */
export const noOtherSockets: FallbackUpgrade = {
  takes: () => false,
  take: () => undefined,
};
