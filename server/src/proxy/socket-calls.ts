// WebSockets of apps: admits them, and ends them when the sender's token loses its validity. Such a
// connection may last for days; a revoked token must not grant access that long.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { AppRoute } from "#apps/routes.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import { newRunId, type RunId } from "#lib/ids.ts";
import type { Origin, Peer } from "#lib/trusted-proxies.ts";
import { linesFor, type Admitted, type AppRequest, type CallAdmission } from "./call-admission.ts";
import { noWebSocket, notForSockets, stopping } from "./call-faults.ts";
import { notDeployed } from "./authorize.ts";
import type { CalledApps } from "./called-apps.ts";
import { answerBytes, refusalOf } from "./refusal.ts";
import { RequestFields } from "./request-fields.ts";
import { originForm, replicaPath, rootPathOf } from "./target.ts";
import { UpgradeCall, type UpgradeParts } from "./upgrade-call.ts";

/** The parts that sockets share with all other calls. */
export type SocketParts = UpgradeParts & {
  readonly clock: Clock;
  /** True once the proxy takes no more calls. */
  readonly isClosed: () => boolean;
  readonly peerOf: (request: IncomingMessage) => Peer;
  readonly admission: CallAdmission;
  /** Why the app's calls are refused now; null: they are not. */
  readonly refusalOf: (route: AppRoute) => Fault | null;
  readonly apps: CalledApps;
  /** The fault that the client gets for an unexpected error. */
  readonly unexpected: (error: unknown, runId: RunId) => Fault;
};

type Arrival = {
  readonly socket: Duplex;
  readonly firstBytes: Buffer;
  readonly origin: Origin;
  readonly runId: RunId;
  /** When the request arrived, by `Clock.monotonicMs`. */
  readonly atMs: number;
};

/** How long a check waits for further token changes. */
const checkDelayMs = 50;
/** The pause after a failed token check. */
const retryMs = 5_000;

/** The WebSockets of one proxy. */
export class SocketCalls {
  readonly #parts: SocketParts;
  readonly #upgradeParts: UpgradeParts;
  /** Each open WebSocket, with what is needed to check its sender again. */
  readonly #open = new Map<UpgradeCall, AppRequest>();
  /** The planned check of all open WebSockets; null: none is planned. */
  #nextCheck: { readonly atMs: number; readonly cancel: () => void } | null = null;

  constructor(parts: SocketParts) {
    const { deadlines, monotonicMs, onEnd } = parts;
    this.#parts = parts;
    this.#upgradeParts = {
      deadlines,
      monotonicMs,
      onEnd: (call, outcome) => {
        this.#open.delete(call);
        onEnd(call, outcome);
      },
    };
  }

  /** Handles one WebSocket request that names an app. Never throws. */
  take(request: IncomingMessage, socket: Duplex, firstBytes: Buffer): void {
    const { admission, monotonicMs, peerOf, unexpected } = this.#parts;
    const fields = new RequestFields(request.rawHeaders);
    const origin = peerOf(request).originOf(fields.forwardedFor);
    const arrival = { socket, firstBytes, origin, runId: newRunId(), atMs: monotonicMs() };
    // An error needs no handling: the end of the socket shows that the client has disconnected.
    socket.on("error", () => undefined);
    const fail = (error: unknown): void => refuse(arrival, unexpected(error, arrival.runId));
    try {
      const admitted = admission.admitSocket(originForm(request.url ?? "/"), fields, origin);
      if (!(admitted instanceof Promise)) return this.#connect(arrival, admitted);
      admitted.then((later) => this.#connect(arrival, later)).catch(fail);
    } catch (error) {
      fail(error);
    }
  }

  /** Called when tokens have changed: soon ends the sockets whose senders are no longer allowed. */
  tokensChanged(): void {
    this.#scheduleCheck(checkDelayMs);
  }

  /** Ends all sockets. */
  close(): void {
    this.#nextCheck?.cancel();
    for (const call of this.#open.keys()) call.stop();
  }

  #connect(arrival: Arrival, admitted: Admitted | Fault): void {
    const { socket, firstBytes, origin, runId, atMs } = arrival;
    if (admitted instanceof Fault) return refuse(arrival, admitted);
    if (socket.destroyed) return;
    const live = this.#liveOf(admitted);
    if (live instanceof Fault) return refuse(arrival, live);
    const { target, fields, route } = admitted;
    const { projectId, appId } = route;
    const { address } = origin;
    const about = {
      socket,
      firstBytes,
      runId,
      projectId,
      appId,
      method: "GET",
      path: replicaPath(target, live.settings),
      rootPath: rootPathOf(target),
      lines: linesFor(admitted, origin),
      clientAddress: address,
      webhookEndpoint: null,
      isWebSocket: true,
    };
    const call = new UpgradeCall(about, this.#parts.apps.of(appId), live, atMs, this.#upgradeParts);
    const appRequest = { target, fields, address };
    this.#open.set(call, appRequest);
    call.enter();
    // The token may have been revoked while the call was admitted.
    this.#readmit(call, appRequest);
  }

  /** The live release for a socket; a fault if the app takes no socket now. */
  #liveOf({ target, route }: Admitted): NonNullable<AppRoute["live"]> | Fault {
    const { refusalOf, isClosed } = this.#parts;
    const refusal = refusalOf(route);
    if (refusal !== null) return refusal;
    const { live } = route;
    if (live === null) return notDeployed(route);
    if (isClosed()) return stopping();
    if (live.settings.runtime !== "custom") return noWebSocket(route.appName);
    if (target.isAsync) return notForSockets("async=true");
    return target.webhookEndpoint === null ? live : notForSockets("webhookEndpoint");
  }

  #scheduleCheck(afterMs: number): void {
    const { clock } = this.#parts;
    const atMs = clock.monotonicMs() + afterMs;
    const isEarlierPlanned = this.#nextCheck !== null && this.#nextCheck.atMs <= atMs;
    if (this.#open.size === 0 || isEarlierPlanned) return;
    this.#nextCheck?.cancel();
    const check = (): void => {
      this.#nextCheck = null;
      for (const [call, appRequest] of this.#open) this.#readmit(call, appRequest);
    };
    this.#nextCheck = { atMs, cancel: clock.after(afterMs, check) };
  }

  /** Ends the call if its sender may no longer call the app. */
  #readmit(call: UpgradeCall, appRequest: AppRequest): void {
    const act = (result: AppRoute | Fault): void => {
      if (!(result instanceof Fault)) return;
      // The sender's rights could not be checked now.
      if (result.code === "unavailable") this.#scheduleCheck(retryMs);
      else call.breakOff(result);
    };
    const result = this.#parts.admission.admitAgain(appRequest);
    if (result instanceof Promise) void result.then(act);
    else act(result);
  }
}

function refuse({ socket, runId }: Arrival, fault: Fault): void {
  if (socket.destroyed) return;
  socket.once("finish", () => socket.destroy());
  socket.end(answerBytes(refusalOf(fault, runId), { isLast: true }));
}
