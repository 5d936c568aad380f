// Probes a replica: a GET that must return 200, or a connect, to a port or to a socket file. Each
// probe has a deadline, which also covers a hanging connect.
import { existsSync, watch } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { basename, dirname } from "node:path";
import { formatAddress, requestAddress } from "#drivers/address.ts";
import type { Address } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import { isTaken } from "./replica-view.ts";

export type ProbeTarget = {
  readonly address: Address;
  /** A path, or `""` for a TCP connect. */
  readonly endpoint: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
};

/** `reason` is a sentence for the app's owner. */
export type ProbeAnswer = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/** Probes once; never rejects. */
export type Probe = (target: ProbeTarget) => Promise<ProbeAnswer>;

/** Probes over the network. */
export function networkProbe(clock: Clock): Probe {
  return async (target) => {
    const deadline = new AbortController();
    const cancel = clock.after(target.timeoutMs, () =>
      deadline.abort(new Error("no answer in time")),
    );
    const signal = AbortSignal.any([target.signal, deadline.signal]);
    try {
      // Another program's answer must not be taken for the replica's.
      const { address } = target;
      if (isTaken(address))
        return { ok: false, reason: `The app does not listen on ${hostAndPort(address)} yet.` };
      if ("path" in address) await waitForSocket(address.path, signal);
      if (target.endpoint === "") return await tcpProbe(target, signal);
      return await httpProbe(target, signal);
    } finally {
      cancel();
    }
  };
}

/**
 * Resolves as soon as the socket file of a starting replica exists; at the latest when `signal` is
 * aborted.
 */
async function waitForSocket(path: string, signal: AbortSignal): Promise<void> {
  if (existsSync(path)) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  try {
    const watcher = watch(dirname(path), (_change, name) => {
      if (name === basename(path)) resolve();
    });
    watcher.on("error", () => resolve());
    signal.addEventListener("abort", () => resolve(), { once: true });
    // The file may have come, or the time may have passed, before the watch began.
    if (existsSync(path) || signal.aborted) resolve();
    await promise;
    watcher.close();
  } catch {
    // Nothing can be watched, perhaps because no watch is free (fs.inotify.max_user_watches). The
    // next probe finds the socket.
  }
}

function httpProbe(
  { address, endpoint, timeoutMs }: ProbeTarget,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  return new Promise((resolve) => {
    const fail = (what: string): void => resolve({ ok: false, reason: `GET ${endpoint} ${what}.` });
    const probeRequest = request({
      ...requestAddress(address),
      path: endpoint,
      method: "GET",
      headers: {
        host: "path" in address ? "localhost" : formatAddress(address),
        "user-agent": "slipway-probe",
        connection: "close",
      },
      agent: false,
      signal,
    });
    probeRequest.on("response", (response) => {
      const { statusCode } = response;
      if (statusCode === 200) resolve({ ok: true });
      else fail(`answered ${statusCode} instead of 200`);
      // Only the status matters, so the body is not read.
      probeRequest.destroy();
    });
    probeRequest.on("error", (error) => {
      if (isRefused(error)) resolve({ ok: false, reason: nothingListens(address) });
      else fail(failure(error, signal, timeoutMs));
    });
    probeRequest.end();
  });
}

function tcpProbe({ address, timeoutMs }: ProbeTarget, signal: AbortSignal): Promise<ProbeAnswer> {
  return new Promise((resolve) => {
    const socket = connect({ ...address, signal });
    socket.on("connect", () => {
      resolve({ ok: true });
      socket.destroy();
    });
    socket.on("error", (error) => {
      const what = `A connection to ${hostAndPort(address)} ${failure(error, signal, timeoutMs)}.`;
      const reason = isRefused(error) ? nothingListens(address) : what;
      resolve({ ok: false, reason });
    });
  });
}

function isRefused(error: Error): boolean {
  return "code" in error && error.code === "ECONNREFUSED";
}

function nothingListens(address: Address): string {
  if ("path" in address)
    return "Nothing listens on the app's socket: it is still starting, or has failed to start; see its log.";
  return `Nothing listens on ${hostAndPort(address)}: the app must listen on the port in its settings (port), or, if that is 0, on the one in its environment variable PORT.`;
}

function hostAndPort(address: Address): string {
  return "path" in address ? "its socket" : `port ${address.port}`;
}

/** What became of a probe, to complete a sentence. */
function failure(error: Error, signal: AbortSignal, timeoutMs: number): string {
  if (signal.aborted) return `was not answered within ${timeoutMs / 1000} seconds`;
  return `failed: ${error.message}`;
}
