// WebSockets of apps: how one is let in, and that it ends when what its sender was let in with is good no more. Such a
// connection may last for days; a token that was revoked must not go on giving access for as long.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { AppRoute } from "#apps/routes.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import { newRunId, type AppId, type RunId } from "#lib/ids.ts";
import type { Origin, Peer } from "#lib/trusted-proxies.ts";
import type { AppCalls } from "./app-calls.ts";
import { noWebSocket, notForSockets, stopping } from "./call-faults.ts";
import { notDeployed } from "./authorize.ts";
import { answerBytes, refusalOf } from "./refusal.ts";
import { RequestFields } from "./request-fields.ts";
import { originForm, type Target } from "./target.ts";
import { UpgradeCall, type UpgradeParts } from "./upgrade-call.ts";

/** Which app a request is for, and that its sender may call it. */
export type Resolved = { readonly target: Target; readonly fields: RequestFields; readonly route: AppRoute };

/** Of whom: what `readmit` judges again. */
export type SocketAdmission = { readonly target: Target; readonly fields: RequestFields; readonly address: string };

/** What sockets share with all other calls. */
export type SocketParts = UpgradeParts & {
  readonly clock: Clock;
  readonly isClosed: () => boolean;
  readonly peerOf: (request: IncomingMessage) => Peer;
  readonly resolve: (
    url: string,
    fields: RequestFields,
    origin: Origin,
  ) => Resolved | Fault | Promise<Resolved | Fault>;
  /** Whether the sender would be let in now. */
  readonly readmit: (admission: SocketAdmission) => AppRoute | Fault | Promise<AppRoute | Fault>;
  readonly refusalOf: (route: AppRoute) => Fault | null;
  readonly lines: (route: AppRoute, fields: RequestFields, origin: Origin) => string;
  readonly appOf: (appId: AppId) => AppCalls;
  /** What the client is told of an error that is no fault. */
  readonly unexpected: (error: unknown, runId: RunId) => Fault;
};

type Arrival = {
  readonly socket: Duplex;
  readonly firstBytes: Buffer;
  readonly origin: Origin;
  readonly runId: RunId;
  readonly atMs: number;
};

/** Several changes of tokens at once are one look. */
const lookAgainMs = 50;
/** After a look at which a token could not be checked. */
const retryMs = 5_000;

/** One for the proxy. */
export class SocketCalls {
  readonly #parts: SocketParts;
  readonly #upgradeParts: UpgradeParts;
  readonly #open = new Map<UpgradeCall, SocketAdmission>();
  #nextLook: { readonly atMs: number; readonly cancel: () => void } | null = null;

  constructor(parts: SocketParts) {
    const { deadlines, monotonicMs, onEnd } = parts;
    this.#parts = parts;
    this.#upgradeParts = {
      ...{ deadlines, monotonicMs },
      onEnd: (call, outcome) => {
        this.#open.delete(call);
        onEnd(call, outcome);
      },
    };
  }

  /** Takes one request for a WebSocket whose path begins with `/v4/`. Never throws. */
  take(request: IncomingMessage, socket: Duplex, firstBytes: Buffer): void {
    const { monotonicMs, peerOf, resolve, unexpected } = this.#parts;
    const fields = new RequestFields(request.rawHeaders);
    const origin = peerOf(request).originOf(fields.forwardedFor);
    const arrival = { socket, firstBytes, origin, runId: newRunId(), atMs: monotonicMs() };
    // A client that breaks off is noticed by the end of its socket.
    socket.on("error", () => undefined);
    const fail = (error: unknown): void => refuse(arrival, unexpected(error, arrival.runId));
    try {
      const resolved = resolve(originForm(request.url ?? "/"), fields, origin);
      if (!(resolved instanceof Promise)) return this.#connect(arrival, resolved);
      resolved.then((later) => this.#connect(arrival, later)).catch(fail);
    } catch (error) {
      fail(error);
    }
  }

  /** Ends, a moment later, those whose senders would not be let in any more. For when tokens have changed. */
  tokensChanged(): void {
    this.#lookAgain(lookAgainMs);
  }

  /** Ends all at once. */
  close(): void {
    this.#nextLook?.cancel();
    for (const call of this.#open.keys()) call.destroy();
  }

  #connect(arrival: Arrival, resolved: Resolved | Fault): void {
    const { lines, appOf } = this.#parts;
    const { socket, firstBytes, origin, runId, atMs } = arrival;
    if (resolved instanceof Fault) return refuse(arrival, resolved);
    if (socket.destroyed) return;
    const live = this.#admit(resolved);
    if (live instanceof Fault) return refuse(arrival, live);
    const { target, fields, route } = resolved;
    const { projectId, appId } = route;
    const { address } = origin;
    const about = {
      socket,
      firstBytes,
      runId,
      projectId,
      appId,
      method: "GET",
      path: target.path,
      lines: lines(route, fields, origin),
      clientAddress: address,
      webhookEndpoint: null,
      isWebSocket: true,
    };
    const call = new UpgradeCall(about, appOf(appId), live, atMs, this.#upgradeParts);
    const admission = { target, fields, address };
    this.#open.set(call, admission);
    call.enter();
    // The token may have been revoked while its app was looked up.
    this.#readmit(call, admission);
  }

  #admit({ target, route }: Resolved): NonNullable<AppRoute["live"]> | Fault {
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

  #lookAgain(afterMs: number): void {
    const { clock } = this.#parts;
    const atMs = clock.monotonicMs() + afterMs;
    if (this.#open.size === 0 || (this.#nextLook !== null && this.#nextLook.atMs <= atMs)) return;
    this.#nextLook?.cancel();
    const look = (): void => {
      this.#nextLook = null;
      for (const [call, admission] of this.#open) this.#readmit(call, admission);
    };
    this.#nextLook = { atMs, cancel: clock.after(afterMs, look) };
  }

  #readmit(call: UpgradeCall, admission: SocketAdmission): void {
    const judge = (found: AppRoute | Fault): void => {
      if (!(found instanceof Fault)) return;
      if (found.code === "unavailable") this.#lookAgain(retryMs);
      else call.revoke(found);
    };
    const found = this.#parts.readmit(admission);
    if (found instanceof Promise) void found.then(judge);
    else judge(found);
  }
}

function refuse({ socket, runId }: Arrival, fault: Fault): void {
  if (socket.destroyed) return;
  socket.once("finish", () => socket.destroy());
  socket.end(answerBytes(refusalOf(fault, runId), { isLast: true }));
}
