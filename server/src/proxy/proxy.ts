// The path of a call: find the app and check the caller (`CallAdmission`), get a slot on a replica
// (`CalledApps`), forward the call and its answer (`Call`). Everything that a call needs is in
// memory: for an app with a ready replica, no database is read and no body is parsed.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { AppRoute } from "#apps/routes.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault, type FaultCode } from "#lib/fault.ts";
import { newRunId, type RunId } from "#lib/ids.ts";
import { Tally } from "#lib/tally.ts";
import type { Origin } from "#lib/trusted-proxies.ts";
import type { AdmittedCall } from "./admitted-call.ts";
import { asyncCall } from "./async-accept.ts";
import { Call, type CallParts, type PlainAbout } from "./call.ts";
import { codedBody, internal, stopping, tooLarge } from "./call-faults.ts";
import { CallAdmission, linesFor, type Admitted } from "./call-admission.ts";
import { recordOf } from "./call-record.ts";
import { CalledApps } from "./called-apps.ts";
import { Deadlines } from "./deadlines.ts";
import type { Client, HttpClient } from "./client.ts";
import type { CallOutcome } from "./finished-call.ts";
import type { ReadCall } from "./http2-server.ts";
import { ForwardingClient, GatheredBytes } from "./forwarding.ts";
import { notDeployed, withoutRelease } from "./authorize.ts";
import { NodeClient } from "./node-client.ts";
import { readPlatformFields } from "./platform-fields.ts";
import type { ProxyOptions } from "./proxy-options.ts";
import { RequestFields } from "./request-fields.ts";
import {
  aboutRun,
  RunClient,
  type RunHandle,
  type RunRequest,
  type RunWatcher,
} from "./run-call.ts";
import { SocketCalls } from "./socket-calls.ts";
import { originForm, replicaPath, rootPathOf } from "./target.ts";
import { whyEnded } from "./why-ended.ts";

/** A request, and what the platform recorded on its arrival. */
type Arrival = {
  readonly client: HttpClient;
  readonly origin: Origin;
  readonly runId: RunId;
  /** When the request arrived, by `Clock.monotonicMs`. */
  readonly atMs: number;
};

/** The size of the one buffer into which all connections to replicas read. */
const readBufferBytes = 65_536;
/** The memory for collecting answers that also go to a webhook. */
const gatheredBytesMax = 256 * 1_048_576;

/** Serves all calls of a platform. To be closed with `close()` once the listener is closed. */
export class Proxy {
  /** Decides which app a request is for, and whether its sender may call it. */
  readonly admission: CallAdmission;
  /** The calls of all apps. */
  readonly apps: CalledApps;
  /** Plain and async calls refused before they reached an app, per fault code. */
  readonly refusals = new Tally<FaultCode>();
  readonly #options: ProxyOptions;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  readonly #sockets: SocketCalls;
  /** The calls of runs that are going on. */
  readonly #runs = new Set<Call>();
  readonly #gathered = new GatheredBytes(gatheredBytesMax);
  /** The parts that all plain calls share. */
  readonly #callParts: CallParts;
  /** The parts that all calls of runs share. */
  readonly #runParts: CallParts;
  /** Ends the listening to the view of replicas. */
  readonly #unlisten: () => void;
  #isClosed = false;

  constructor(options: ProxyOptions) {
    const { clock, onFinished, brokeOff, limits, log, nudge, view } = options;
    const monotonicMs = (): number => clock.monotonicMs();
    const deadlines = new Deadlines(clock);
    this.#options = options;
    this.#clock = clock;
    this.#deadlines = deadlines;
    const common = { deadlines, monotonicMs };
    const { appHosts, routes, tokens, hstsSeconds = 0 } = options;
    this.admission = new CallAdmission({ routes, tokens, appHosts, hstsSeconds, log });
    this.apps = new CalledApps({
      ...common,
      routes,
      replicas: view,
      limits,
      nudge,
      random: () => clock.random(),
      readBuffer: Buffer.allocUnsafeSlow(readBufferBytes),
    });
    const onEnd = (call: AdmittedCall, outcome: CallOutcome): void =>
      onFinished(recordOf(call, outcome, clock));
    const { bodyBytesMax } = limits;
    const callParts = { ...common, bodyBytesMax, log, onEnd };
    this.#callParts = { ...callParts, whyEnded: (call) => whyEnded(call, { brokeOff, clock }) };
    // The client of a run's call finds out itself why the replica ended.
    this.#runParts = { ...callParts, whyEnded: null, onEnd: (call) => this.#runs.delete(call) };
    this.#sockets = new SocketCalls({
      ...common,
      clock,
      onEnd,
      isClosed: () => this.#isClosed,
      peerOf: (request) => options.trustedProxies.peerOf(request.socket),
      admission: this.admission,
      apps: this.apps,
      refusalOf: (route) => this.#refusalOf(route),
      unexpected: (error, runId) => this.#unexpected(error, runId),
    });
    this.#unlisten = view.onChange((appId) => this.apps.refresh(appId));
  }

  /** Answers one request that names an app by its path or its host. Never throws. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const fields = new RequestFields(request.rawHeaders);
    const peer = this.#options.trustedProxies.peerOf(request.socket);
    const client = new NodeClient(request, response, { peer, fields, deadlines: this.#deadlines });
    this.#take(client, originForm(request.url ?? "/"), fields);
  }

  /** Answers one call whose head the listener itself has read. Never throws. */
  handleRead(client: HttpClient, { url, fields }: ReadCall): void {
    this.#take(client, url, fields);
  }

  /**
   * Answers one request for a WebSocket that names an app by its path or its host. Never throws.
   */
  upgrade(request: IncomingMessage, socket: Duplex, firstBytes: Buffer): void {
    this.#sockets.take(request, socket, firstBytes);
  }

  /** To be called when tokens were revoked: ends WebSockets whose token no longer allows them. */
  tokensChanged(): void {
    this.#sockets.tokensChanged();
  }

  /**
   * Sends a run's call as if it were a plain call: to a replica of the live release, or into the
   * app's call line until a replica has a free slot. Reports the progress and the end of the call
   * to `watcher`. Never throws.
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
      this.apps.of(route.appId),
      live,
      this.#clock.monotonicMs(),
      this.#runParts,
    );
    this.#runs.add(call);
    call.enter();
    return client;
  }

  /**
   * Refuses waiting and new calls, ends WebSockets and the calls of runs, and closes all idle
   * connections to replicas.
   */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#unlisten();
    this.apps.close(stopping());
    this.#sockets.close();
    for (const call of this.#runs) call.fail(stopping());
    this.#deadlines.stop();
  }

  #take(client: HttpClient, url: string, fields: RequestFields): void {
    const origin = client.peer.originOf(fields.forwardedFor);
    const arrival = { client, origin, runId: newRunId(), atMs: this.#clock.monotonicMs() };
    try {
      const admitted = this.admission.admitCall(url, fields, arrival);
      if (admitted === null) return;
      if (!(admitted instanceof Promise)) return this.#serve(arrival, admitted);
      admitted
        .then((settled) => this.#serve(arrival, settled))
        .catch((error: unknown) => this.#refuse(arrival, this.#unexpected(error, arrival.runId)));
    } catch (error) {
      this.#refuse(arrival, this.#unexpected(error, arrival.runId));
    }
  }

  #serve(arrival: Arrival, admitted: Admitted | Fault): void {
    if (admitted instanceof Fault) return this.#refuse(arrival, admitted);
    const { target, route } = admitted;
    // The client may have left while its token was checked.
    if (arrival.client.isGone) return;
    const refusal = this.#refusalOf(route);
    if (refusal !== null) return this.#refuse(arrival, refusal);
    const codingFault = codedBody(route, admitted.fields);
    if (codingFault !== null) return this.#refuse(arrival, codingFault);
    if (target.isAsync) return this.#acceptAsync(arrival, admitted);
    if (target.webhookEndpoint !== null)
      return this.#serveForwarded(arrival, admitted, target.webhookEndpoint);
    this.#send(arrival, admitted, linesFor(admitted, arrival.origin));
  }

  /** Sends the call to a replica, or into the app's call line. */
  #send(
    arrival: Arrival,
    { target, fields, route }: Admitted,
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
    new Call(about, this.apps.of(appId), live, atMs, this.#callParts).enter();
  }

  /** Sends the call to the app, and its answer to the caller and to the webhook. */
  #serveForwarded(arrival: Arrival, admitted: Admitted, webhookUrl: string): void {
    const { forwarding } = this.#options;
    const { route } = admitted;
    const { client, origin, runId } = arrival;
    const fault = forwarding.check(webhookUrl);
    if (fault !== null) return this.#refuse(arrival, fault);
    const lines = linesFor(admitted, origin);
    const platformFields = readPlatformFields(lines, { isAsync: false, isForwarded: true });
    if (platformFields instanceof Fault) return this.#refuse(arrival, platformFields);
    const { projectId, appId } = route;
    const forwarded = {
      runId,
      projectId,
      appId,
      url: webhookUrl,
      secret: platformFields.webhookSecret,
    };
    const forwardingClient = new ForwardingClient(client, forwarded, forwarding, this.#gathered);
    this.#send(arrival, admitted, platformFields.lines, forwardingClient);
  }

  /** Hands the call over to be executed later. */
  #acceptAsync(arrival: Arrival, admitted: Admitted): void {
    const { asyncAccept, forwarding } = this.#options;
    const { target, route, fields } = admitted;
    const { webhookEndpoint } = target;
    const { client, origin, runId } = arrival;
    if (route.live === null) return this.#refuse(arrival, notDeployed(route));
    if (this.#isClosed) return this.#refuse(arrival, stopping());
    if (webhookEndpoint !== null) {
      const fault = forwarding.check(webhookEndpoint);
      if (fault !== null) return this.#refuse(arrival, fault);
    }
    const lines = linesFor(admitted, origin);
    const isForwarded = webhookEndpoint !== null;
    const platformFields = readPlatformFields(lines, { isAsync: true, isForwarded });
    if (platformFields instanceof Fault) return this.#refuse(arrival, platformFields);
    const { monotonicMs } = this.#callParts;
    const path = replicaPath(target, route.live.settings);
    const about = { runId, route, path, webhookEndpoint, clientAddress: origin.address };
    asyncAccept.accept(asyncCall(about, { client, fields, platformFields, monotonicMs }));
  }

  #refusalOf(route: AppRoute): Fault | null {
    return this.#options.refusalOf(route);
  }

  #refuse(arrival: Arrival, fault: Fault, client: Client = arrival.client): void {
    const { runId } = arrival;
    // The caller learns only of the fault; its cause is for the operator.
    if (fault.code === "unavailable" && fault.cause !== undefined) {
      this.#options.log.error({ err: fault.cause, runId }, "a call could not be let in");
    }
    this.refusals.count(fault.code);
    // Not the time of arrival: letting the call in may have waited for the database.
    client.refuse(fault, runId, this.#callParts.monotonicMs());
  }

  #unexpected(error: unknown, runId: RunId): Fault {
    if (error instanceof Fault) return error;
    this.#options.log.error({ err: error, runId }, "a call failed within the platform");
    return internal(runId, error);
  }
}
