// The options of the proxy: the tables that it reads, its limits, and the parts that it calls.
import type { AppRoute } from "#apps/routes.ts";
import type { AppHosts } from "#lib/app-hosts.ts";
import type { Clock } from "#lib/clock.ts";
import type { Fault } from "#lib/fault.ts";
import type { AppId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import type { LineLimits, Replicas } from "./app-calls.ts";
import type { AsyncAccept } from "./async-accept.ts";
import type { CallAuthenticator } from "./authorize.ts";
import type { OnFinished } from "./finished-call.ts";
import type { Forwarding } from "./forwarding.ts";
import type { BrokeOff } from "./why-ended.ts";

/** Limits of calls. */
export type ProxyLimits = LineLimits & {
  /** The maximum body size of a call. */
  readonly bodyBytesMax: number;
};

/** The part of `Routes` that the proxy reads. */
export type CalledRoutes = {
  find(projectId: string, appName: string): AppRoute | undefined;
  byAppId(appId: AppId): AppRoute | undefined;
  /** Called before a call to an app without a release is refused: the release may be brand new. */
  refresh(appId: AppId): Promise<void>;
};

/** All parts of a proxy. */
export type ProxyOptions = {
  readonly routes: CalledRoutes;
  /** Checks the tokens of calls. */
  readonly tokens: CallAuthenticator;
  readonly trustedProxies: TrustedProxies;
  /** The host names of apps. */
  readonly appHosts: Pick<AppHosts, "appOf">;
  /** The scheduler's view of replicas. `onChange` returns a function that ends the listening. */
  readonly view: Replicas & { onChange(listener: (appId: AppId) => void): () => void };
  /** Makes the scheduler check the app now. */
  readonly nudge: (appId: AppId) => void;
  readonly limits: ProxyLimits;
  /** For `Strict-Transport-Security` of encrypted answers; 0 or absent: they have none. */
  readonly hstsSeconds?: number;
  readonly log: Log;
  readonly clock: Clock;
  /** Called when a call that entered its app has ended. */
  readonly onFinished: OnFinished;
  /** Finds out why the replica of a broken call has ended. */
  readonly brokeOff: BrokeOff;
  /**
   * Returns why the app's calls are refused now, such as an exhausted budget; null: they are not
   * refused. Called for each call.
   */
  readonly refusalOf: (route: AppRoute) => Fault | null;
  /** Accepts calls with `async=true`. */
  readonly asyncAccept: AsyncAccept;
  /** Forwards answers of calls that name a `webhookEndpoint`. */
  readonly forwarding: Forwarding;
};
