// The path of a call: find the app, check the caller, get a slot on a replica, forward the call and
// its answer. All the needed state is in memory; a call to an app with a ready replica touches no
// database and parses no body. The scheduler reads each app's demand here.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { AppRoute } from "#apps/routes.ts";
import { AppHosts } from "#lib/app-hosts.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Fault, type FaultCode } from "#lib/fault.ts";
import { newRunId, type AppId, type ReleaseId, type ReplicaId, type RunId } from "#lib/ids.ts";
import { Tally } from "#lib/tally.ts";
import type { Origin } from "#lib/trusted-proxies.ts";
import { noDemand, type Demand, type DemandSource, type Occupancy } from "#scheduler/demand.ts";
import { AppCalls, type AppCallsParts } from "./app-calls.ts";
import type { AdmittedCall } from "./admitted-call.ts";
import { nothingAdded } from "./added-fields.ts";
import { asyncCall } from "./async-accept.ts";
import { Call, type CallParts, type PlainAbout } from "./call.ts";
import { codedBody, internal, notTaken, stopping, tooLarge } from "./call-faults.ts";
import { recordOf } from "./call-record.ts";
import { addedToAnswers, preflightAnswer } from "./cors.ts";
import { Deadlines } from "./deadlines.ts";
import type { Client, HttpClient } from "./client.ts";
import type { CallOutcome } from "./finished-call.ts";
import { ForwardingClient, GatheredBytes } from "./forwarding.ts";
import { notDeployed, authorizeCall, withoutRelease } from "./authorize.ts";
import { CallTimes, CallMeter } from "./call-meter.ts";
import { NodeClient } from "./node-client.ts";
import { readPlatformFields } from "./platform-fields.ts";
import type { PlainRequest } from "./plain-request.ts";
import type { ProxyOptions } from "./proxy-options.ts";
import type { ReleaseTally } from "./release-tally.ts";
import type { ReplicaSlot } from "./replica-slot.ts";
import { RequestFields } from "./request-fields.ts";
import {
  aboutRun,
  RunClient,
  type RunHandle,
  type RunRequest,
  type RunWatcher,
} from "./run-call.ts";
import { linesFor, SocketCalls, type SocketAdmission, type Resolved } from "./socket-calls.ts";
import {
  namedApp,
  originForm,
  readTarget,
  replicaPath,
  rootPathOf,
  type NamedApp,
} from "./target.ts";
import { whyEndedWith } from "./why-ended.ts";

/** A request, and what the platform recorded on its arrival. */
type Arrival = {
  readonly client: HttpClient;
  readonly origin: Origin;
  readonly runId: RunId;
  readonly atMs: number;
};

type Resolving = Resolved | Fault | Promise<Resolved | Fault>;

const readBufferBytes = 65_536;
/** For forwarded answers while they are collected. */
const gatheredBytesMax = 256 * 1_048_576;

/** One per platform. Call `close()` once the listener is closed. */
export class Proxy implements DemandSource, Occupancy {
  readonly times = new CallTimes();
  /** Plain and async calls refused before they reached an app, per fault code. */
  readonly refusals = new Tally<FaultCode>();
  readonly #options: ProxyOptions;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  readonly #hosts: AppHosts;
  readonly #apps = new Map<AppId, AppCalls>();
  readonly #slots = new Map<ReplicaId, ReplicaSlot>();
  readonly #sockets: SocketCalls;
  readonly #runs = new Set<Call>();
  readonly #gathered = new GatheredBytes(gatheredBytesMax);
  readonly #appParts: AppCallsParts;
  readonly #callParts: CallParts;
  readonly #runParts: CallParts;
  readonly #unlisten: () => void;
  #isClosed = false;

  constructor(options: ProxyOptions) {
    const { clock = systemClock, onFinished, limits, log, nudge, view } = options;
    const monotonicMs = (): number => clock.monotonicMs();
    const deadlines = new Deadlines(clock);
    this.#options = options;
    this.#clock = clock;
    this.#deadlines = deadlines;
    this.#hosts = options.appHosts ?? new AppHosts("localhost");
    const common = { deadlines, monotonicMs };
    const readBuffer = Buffer.allocUnsafeSlow(readBufferBytes);
    const random = (): number => clock.random();
    this.#appParts = {
      ...common,
      replicas: view,
      limits,
      slots: this.#slots,
      nudge,
      random,
      readBuffer,
    };
    const tell =
      onFinished === undefined
        ? null
        : (call: AdmittedCall, outcome: CallOutcome): void =>
            onFinished(recordOf(call, outcome, clock));
    const { bodyBytesMax } = limits;
    const callParts = { ...common, bodyBytesMax, log, onEnd: tell };
    this.#callParts = { ...callParts, whyEnded: whyEndedWith(options.brokeOff, clock) };
    this.#runParts = { ...callParts, whyEnded: null, onEnd: (call) => this.#runs.delete(call) };
    this.#sockets = new SocketCalls({
      ...common,
      clock,
      onEnd: (call, outcome) => tell?.(call, outcome),
      isClosed: () => this.#isClosed,
      peerOf: (request) => options.trustedProxies.peerOf(request.socket),
      resolve: (url, fields, origin) => this.#resolve(url, fields, origin),
      readmit: (admission) => this.#pass(admission, this.#routeOf(admission.target)),
      refusalOf: (route) => this.#refusalOf(route),
      lines: (resolved, origin) => linesFor(resolved, origin),
      appOf: (appId) => this.#appOf(appId),
      unexpected: (error, runId) => this.#unexpected(error, runId),
    });
    this.#unlisten = view.onChange((appId) => this.#refresh(appId));
  }

  /** Whether a `Host` field names an app, which then answers below every path. */
  isAppHost(host: string | undefined): boolean {
    return this.#hosts.appOf(host) !== null;
  }

  /** Answers one request that names an app by its path or its host. Never throws. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const fields = new RequestFields(request.rawHeaders);
    const peer = this.#options.trustedProxies.peerOf(request.socket);
    const client = new NodeClient(request, response, { peer, fields, deadlines: this.#deadlines });
    this.#take(client, originForm(request.url ?? "/"), fields);
  }

  /** Answers one plain call. Never throws. */
  handlePlain(client: HttpClient, { url, fields }: PlainRequest): void {
    this.#take(client, url, fields);
  }

  /**
   * Answers one request for a WebSocket that names an app by its path or its host. Never throws.
   */
  upgrade(request: IncomingMessage, socket: Duplex, firstBytes: Buffer): void {
    this.#sockets.take(request, socket, firstBytes);
  }

  /** Tokens may have been revoked: ends WebSockets whose senders are no longer allowed. */
  tokensChanged(): void {
    this.#sockets.tokensChanged();
  }

  /**
   * Sends a run's call like a plain call: to a replica of the live release, or first into the app's
   * line. Reports everything to `watcher`. Never throws.
   */
  run(request: RunRequest, watcher: RunWatcher): RunHandle {
    const { routes, log } = this.#options;
    const client = new RunClient(request, watcher, log);
    const route = routes.byAppId(request.appId);
    const live = route?.live ?? null;
    if (route === undefined || live === null) {
      client.refuse(withoutRelease(route));
      return client;
    }
    const refusal = this.#isClosed ? stopping() : this.#refusalOf(route);
    if (refusal !== null) {
      client.refuse(refusal);
      return client;
    }
    const about = aboutRun(request, client, route.projectId);
    const call = new Call(
      about,
      this.#appOf(route.appId),
      live,
      this.#clock.monotonicMs(),
      this.#runParts,
    );
    this.#runs.add(call);
    call.enter();
    return client;
  }

  /**
   * Counts a call that a replica works on but that this proxy did not send, in `demandOf` and
   * `running`, even before the view lists the replica. Call the result when it is over; repeated
   * calls do nothing.
   */
  hold(appId: AppId, replicaId: ReplicaId): () => void {
    return this.#appOf(appId).hold(replicaId);
  }

  demandOf(appId: AppId): Demand {
    const meter = this.#apps.get(appId)?.meter;
    if (meter === undefined) return noDemand;
    const { running, waiting, lastActiveAtMs, receivedTotal } = meter;
    return {
      running,
      waiting,
      lastActiveAtMs,
      receivedTotal,
      runMs: meter.runMs(this.#clock.monotonicMs()),
    };
  }

  /** The calls of a release since its first replica; undefined: it has had none. */
  tallyOf(appId: AppId, releaseId: ReleaseId): ReleaseTally | undefined {
    return this.#apps.get(appId)?.tallyOf(releaseId);
  }

  running(replicaId: ReplicaId): number {
    const slot = this.#slots.get(replicaId);
    if (slot !== undefined) return slot.running;
    let count = 0;
    for (const app of this.#apps.values()) count += app.heldOn(replicaId);
    return count;
  }

  retire(replicaId: ReplicaId): void {
    const slot = this.#slots.get(replicaId);
    if (slot !== undefined) this.#apps.get(slot.replica.appId)?.retire(slot);
  }

  /** The meter of each app that had a call or a replica, in order of appearance. */
  *meters(): Iterable<CallMeter> {
    for (const { meter } of this.#apps.values()) yield meter;
  }

  /** Refuses waiting and new calls, ends WebSockets, closes all idle connections to replicas. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#unlisten();
    for (const app of this.#apps.values()) {
      app.refuseWaiting(stopping());
      app.close();
    }
    this.#sockets.close();
    for (const call of this.#runs) call.fail(stopping());
    this.#deadlines.stop();
  }

  #take(client: HttpClient, url: string, fields: RequestFields): void {
    const origin = client.peer.originOf(fields.forwardedFor);
    const arrival = { client, origin, runId: newRunId(), atMs: this.#clock.monotonicMs() };
    try {
      const resolved = this.#resolveCall(url, fields, arrival);
      if (resolved === null) return;
      if (!(resolved instanceof Promise)) return this.#serve(arrival, resolved);
      resolved
        .then((later) => this.#serve(arrival, later))
        .catch((error: unknown) => this.#refuse(arrival, this.#unexpected(error, arrival.runId)));
    } catch (error) {
      this.#refuse(arrival, this.#unexpected(error, arrival.runId));
    }
  }

  /** Null: it is answered without the app. */
  #resolveCall(url: string, fields: RequestFields, arrival: Arrival): Resolving | null {
    const { client, origin, runId } = arrival;
    const home = this.#hosts.appOf(fields.host);
    const target = readTarget(url, home);
    const named = target instanceof Fault ? (home ?? namedApp(url)) : target;
    const route = named === null ? undefined : this.#routeOf(named);
    const request = { route, fields, hasOwnHost: home !== null };
    client.added = named === null ? nothingAdded : addedToAnswers(request);
    const preflight = preflightAnswer(client.method, request, runId);
    if (preflight instanceof Fault) return preflight;
    if (preflight !== null && preflight !== "app") {
      client.answer(preflight);
      return null;
    }
    if (target instanceof Fault) return target;
    if (preflight === null || route === undefined)
      return this.#admit({ target, fields, address: origin.address }, route);
    // It must not start a run, or send anything, without a token.
    const asked = { ...target, isAsync: false, webhookEndpoint: null };
    return this.#upToDate({ target: asked, fields, route });
  }

  #resolve(url: string, fields: RequestFields, origin: Origin): Resolving {
    const target = readTarget(url, this.#hosts.appOf(fields.host));
    if (target instanceof Fault) return target;
    return this.#admit({ target, fields, address: origin.address }, this.#routeOf(target));
  }

  #routeOf({ projectId, appName }: NamedApp): AppRoute | undefined {
    return this.#options.routes.find(projectId, appName);
  }

  #admit({ target, fields, address }: SocketAdmission, found: AppRoute | undefined): Resolving {
    if (fields.refused !== null) return new Fault("malformed", fields.refused);
    const route = this.#pass({ target, fields, address }, found);
    if (route instanceof Fault) return route;
    if (!(route instanceof Promise)) return this.#upToDate({ target, fields, route });
    return route.then((later) =>
      later instanceof Fault ? later : this.#upToDate({ target, fields, route: later }),
    );
  }

  #pass(
    admission: SocketAdmission,
    route: AppRoute | undefined,
  ): AppRoute | Fault | Promise<AppRoute | Fault> {
    const { target, fields, address } = admission;
    const { projectId, appName } = target;
    return authorizeCall(
      this.#options.tokens,
      route,
      { projectId, appName, address },
      fields.authorization,
    );
  }

  /**
   * A caller who saw a build end and calls at once must not be refused because the routing table
   * lags behind.
   */
  #upToDate(resolved: Resolved): Resolved | Promise<Resolved> {
    const { routes, log } = this.#options;
    const { route, target } = resolved;
    if (route.live !== null || routes.refresh === undefined) return resolved;
    return routes.refresh(route.appId).then(
      () => ({ ...resolved, route: routes.find(target.projectId, target.appName) ?? route }),
      (error: unknown) => {
        log.warn({ err: error, appId: route.appId }, "an app's route could not be read again");
        return resolved;
      },
    );
  }

  #serve(arrival: Arrival, resolved: Resolved | Fault): void {
    if (resolved instanceof Fault) return this.#refuse(arrival, resolved);
    const { target, route } = resolved;
    // The token check may have taken a moment.
    if (arrival.client.isGone) return;
    const refusal = this.#refusalOf(route);
    if (refusal !== null) return this.#refuse(arrival, refusal);
    const coded = codedBody(route, resolved.fields);
    if (coded !== null) return this.#refuse(arrival, coded);
    if (target.isAsync) return this.#acceptAsync(arrival, resolved);
    if (target.webhookEndpoint !== null)
      return this.#serveForwarded(arrival, resolved, target.webhookEndpoint);
    this.#send(arrival, resolved, linesFor(resolved, arrival.origin));
  }

  #send(
    arrival: Arrival,
    { target, fields, route }: Resolved,
    lines: string,
    client: Client = arrival.client,
  ): void {
    const { origin, runId, atMs } = arrival;
    const { bodyBytesMax } = this.#options.limits;
    const { live, projectId, appId } = route;
    if (live === null) return this.#refuse(arrival, notDeployed(route), client);
    if (this.#isClosed) return this.#refuse(arrival, stopping(), client);
    if (fields.contentLength > bodyBytesMax)
      return this.#refuse(arrival, tooLarge(bodyBytesMax), client);
    const about: PlainAbout = {
      client,
      runId,
      projectId,
      appId,
      method: arrival.client.method,
      path: replicaPath(target, live.settings),
      rootPath: rootPathOf(target),
      fields,
      lines,
      clientAddress: origin.address,
      webhookEndpoint: target.webhookEndpoint,
      isWebSocket: false,
      mayStart: null,
    };
    new Call(about, this.#appOf(appId), live, atMs, this.#callParts).enter();
  }

  /** From here on every answer to the caller is forwarded too. */
  #serveForwarded(arrival: Arrival, resolved: Resolved, url: string): void {
    const { forwarding } = this.#options;
    const { route } = resolved;
    const { client, origin, runId } = arrival;
    if (forwarding === undefined) return this.#refuse(arrival, notTaken("webhookEndpoint"));
    const fault = forwarding.check(url);
    if (fault !== null) return this.#refuse(arrival, fault);
    const lines = linesFor(resolved, origin);
    const own = readPlatformFields(lines, { isAsync: false, isForwarded: true });
    if (own instanceof Fault) return this.#refuse(arrival, own);
    const { projectId, appId } = route;
    const forwarded = { runId, projectId, appId, url, secret: own.webhookSecret };
    const gathering = new ForwardingClient(client, forwarded, forwarding, this.#gathered);
    this.#send(arrival, resolved, own.lines, gathering);
  }

  #acceptAsync(arrival: Arrival, resolved: Resolved): void {
    const { asyncAccept, forwarding } = this.#options;
    const { target, route, fields } = resolved;
    const { webhookEndpoint } = target;
    const { client, origin, runId } = arrival;
    if (asyncAccept === undefined) return this.#refuse(arrival, notTaken("async=true"));
    if (route.live === null) return this.#refuse(arrival, notDeployed(route));
    if (this.#isClosed) return this.#refuse(arrival, stopping());
    if (webhookEndpoint !== null) {
      const fault =
        forwarding === undefined ? notTaken("webhookEndpoint") : forwarding.check(webhookEndpoint);
      if (fault !== null) return this.#refuse(arrival, fault);
    }
    const lines = linesFor(resolved, origin);
    const own = readPlatformFields(lines, { isAsync: true, isForwarded: webhookEndpoint !== null });
    if (own instanceof Fault) return this.#refuse(arrival, own);
    const { monotonicMs } = this.#callParts;
    const path = replicaPath(target, route.live.settings);
    const asked = { runId, route, path, webhookEndpoint, clientAddress: origin.address };
    asyncAccept.accept(asyncCall(asked, { client, fields, own, monotonicMs }));
  }

  #refusalOf(route: AppRoute): Fault | null {
    return this.#options.refusalOf?.(route) ?? null;
  }

  #appOf(appId: AppId): AppCalls {
    const known = this.#apps.get(appId);
    if (known !== undefined) return known;
    const app = new AppCalls(new CallMeter(appId, this.times), this.#appParts);
    this.#apps.set(appId, app);
    app.refresh();
    return app;
  }

  /** Registers replicas before their first call, so that a replica can be retired before it. */
  #refresh(appId: AppId): void {
    const app = this.#appOf(appId);
    app.refresh();
    if (app.isIdle && this.#options.routes.byAppId(appId) === undefined) this.#apps.delete(appId);
  }

  #refuse(
    { runId, atMs, ...arrival }: Arrival,
    fault: Fault,
    client: Client = arrival.client,
  ): void {
    if (fault.code === "unavailable" && fault.cause !== undefined) {
      this.#options.log.error({ err: fault.cause, runId }, "a call could not be let in");
    }
    this.refusals.count(fault.code);
    client.refuse(fault, runId, atMs);
  }

  #unexpected(error: unknown, runId: RunId): Fault {
    if (error instanceof Fault) return error;
    this.#options.log.error({ err: error, runId }, "a call failed within the platform");
    return internal(runId, error);
  }
}
