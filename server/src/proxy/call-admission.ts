// Decides which app a request is for, and whether its caller may call it: by host name or path,
// token, and the app's rules for pages of other origins. It decides from memory, except for a token
// that is not cached and an app whose first release may be brand new.
import type { AppRoute } from "#apps/routes.ts";
import type { AppHosts } from "#lib/app-hosts.ts";
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { Origin } from "#lib/trusted-proxies.ts";
import { nothingAdded, withHsts } from "./added-fields.ts";
import { authorizeCall, type CallAuthenticator } from "./authorize.ts";
import type { HttpClient } from "./client.ts";
import { addedToAnswers, preflightAnswer } from "./cors.ts";
import type { CalledRoutes } from "./proxy-options.ts";
import type { RequestFields } from "./request-fields.ts";
import { namedApp, readTarget, rootPathOf, type NamedApp, type Target } from "./target.ts";

/** A request for an app. */
export type AppRequest = {
  readonly target: Target;
  readonly fields: RequestFields;
  /** The address of the sender. */
  readonly address: string;
};

/** A request whose sender may call the app. */
export type Admitted = {
  readonly target: Target;
  readonly fields: RequestFields;
  readonly route: AppRoute;
};

/** A value, or a promise of it if something must be looked up first. */
type Soon<Value> = Value | Promise<Value>;

export type AdmissionParts = {
  readonly routes: CalledRoutes;
  readonly tokens: CallAuthenticator;
  readonly appHosts: Pick<AppHosts, "appOf">;
  /** For `Strict-Transport-Security` of encrypted answers; 0: they have none. */
  readonly hstsSeconds: number;
  readonly log: Log;
};

/** Admits calls; one per proxy. */
export class CallAdmission {
  readonly #parts: AdmissionParts;

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
  }

  /** Whether a host name belongs to one app, which then answers every path. */
  isAppHost(host: string | undefined): boolean {
    return this.#parts.appHosts.appOf(host) !== null;
  }

  /**
   * Admits a call, and gives `client` the fields that its answers need for pages of other origins.
   * Null: it was a browser's preflight request, which is answered already.
   */
  admitCall(
    url: string,
    fields: RequestFields,
    { client, origin, runId }: { client: HttpClient; origin: Origin; runId: RunId },
  ): Soon<Admitted | Fault> | null {
    const hostApp = this.#parts.appHosts.appOf(fields.host);
    const target = readTarget(url, hostApp);
    // Pages may read a refusal, too, if the app that the path names allows their origin.
    const app = target instanceof Fault ? (hostApp ?? namedApp(url)) : target;
    const route = app === null ? undefined : this.#find(app);
    const request = { route, fields, hasOwnHost: hostApp !== null };
    client.added = app === null ? nothingAdded : addedToAnswers(request);
    const { hstsSeconds } = this.#parts;
    if (hstsSeconds > 0 && client.peer.isEncrypted)
      client.added = withHsts(client.added, hstsSeconds);
    const preflight = preflightAnswer(client.method, request, runId);
    if (preflight instanceof Fault) return preflight;
    if (preflight !== null && preflight !== "app") {
      client.answer(preflight);
      return null;
    }
    if (target instanceof Fault) return target;
    // The request is no preflight that the app answers, for which there is always a route.
    if (preflight === null || route === undefined)
      return this.#admit({ target, fields, address: origin.address }, route);
    // The app answers the preflight, which has no token: it must start no run and no delivery.
    const preflightTarget = { ...target, isAsync: false, webhookEndpoint: null };
    return this.#withRelease({ target: preflightTarget, fields, route });
  }

  /** Admits a request for a WebSocket. */
  admitSocket(url: string, fields: RequestFields, origin: Origin): Soon<Admitted | Fault> {
    const target = readTarget(url, this.#parts.appHosts.appOf(fields.host));
    if (target instanceof Fault) return target;
    return this.#admit({ target, fields, address: origin.address }, this.#find(target));
  }

  /** Checks again whether the sender of an admitted request may call the app. */
  admitAgain(request: AppRequest): Soon<AppRoute | Fault> {
    return this.#authorize(request, this.#find(request.target));
  }

  #find({ projectId, appName }: NamedApp): AppRoute | undefined {
    return this.#parts.routes.find(projectId, appName);
  }

  #admit(request: AppRequest, route: AppRoute | undefined): Soon<Admitted | Fault> {
    const { target, fields } = request;
    if (fields.refused !== null) return new Fault("malformed", fields.refused);
    const authorized = this.#authorize(request, route);
    if (authorized instanceof Fault) return authorized;
    if (!(authorized instanceof Promise))
      return this.#withRelease({ target, fields, route: authorized });
    return authorized.then((later) =>
      later instanceof Fault ? later : this.#withRelease({ target, fields, route: later }),
    );
  }

  #authorize(
    { target, fields, address }: AppRequest,
    route: AppRoute | undefined,
  ): Soon<AppRoute | Fault> {
    const { projectId, appName } = target;
    const callTarget = { projectId, appName, address };
    return authorizeCall(this.#parts.tokens, route, callTarget, fields.authorization);
  }

  /**
   * Reads the route of an app without a release again: a caller who saw a build end and calls at
   * once must not be refused because the routing table lags behind.
   */
  #withRelease(admitted: Admitted): Soon<Admitted> {
    const { routes, log } = this.#parts;
    const { route, target } = admitted;
    if (route.live !== null) return admitted;
    return routes.refresh(route.appId).then(
      () => ({ ...admitted, route: routes.find(target.projectId, target.appName) ?? route }),
      (error: unknown) => {
        log.warn({ err: error, appId: route.appId }, "an app's route could not be read again");
        return admitted;
      },
    );
  }
}

/** The field lines of a call for its replica. */
export function linesFor({ target, fields, route }: Admitted, origin: Origin): string {
  // An app that receives the whole path must not put the prefix in front once more.
  const keepsPrefix = route.live?.settings.keepPathPrefix === true;
  const rootPath = keepsPrefix ? "" : rootPathOf(target);
  return fields.linesFor({ origin, route, rootPath });
}
