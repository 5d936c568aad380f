// Asks a replica of a custom app whether it is there: a GET that must be answered with 200, or a TCP connect. Each
// question has a deadline, also for a connect that hangs.
import { request } from "node:http";
import { connect } from "node:net";
import type { Address } from "#drivers/driver.ts";

export type ProbeTarget = {
  readonly address: Address;
  /** A path, or `""` for a TCP connect. */
  readonly endpoint: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
};

/** `reason` is a sentence for the app's owner. */
export type ProbeAnswer = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/** Asks once; never rejects. */
export type Probe = (target: ProbeTarget) => Promise<ProbeAnswer>;

/** Asks over the network. */
export const networkProbe: Probe = (target) => (target.endpoint === "" ? tcpProbe(target) : httpProbe(target));

function httpProbe({ address, endpoint, timeoutMs, signal }: ProbeTarget): Promise<ProbeAnswer> {
  return new Promise((resolve) => {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const no = (what: string): void => resolve({ ok: false, reason: `GET ${endpoint} ${what}.` });
    const asking = request({
      host: address.host,
      port: address.port,
      path: endpoint,
      method: "GET",
      headers: { host: `${address.host}:${address.port}`, "user-agent": "slipway-probe", connection: "close" },
      agent: false,
      signal: deadline,
    });
    asking.on("response", (response) => {
      const { statusCode } = response;
      // The status decides; a body of any length is not worth reading.
      response.destroy();
      if (statusCode === 200) resolve({ ok: true });
      else no(`answered ${statusCode} instead of 200`);
    });
    asking.on("error", (error) => no(failure(error, deadline, timeoutMs)));
    asking.end();
  });
}

function tcpProbe({ address, timeoutMs, signal }: ProbeTarget): Promise<ProbeAnswer> {
  return new Promise((resolve) => {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const socket = connect({ host: address.host, port: address.port, signal: deadline });
    socket.on("connect", () => {
      resolve({ ok: true });
      socket.destroy();
    });
    socket.on("error", (error) => {
      resolve({ ok: false, reason: `A connection to port ${address.port} ${failure(error, deadline, timeoutMs)}.` });
    });
  });
}

function failure(error: Error, deadline: AbortSignal, timeoutMs: number): string {
  if (deadline.aborted) return `was not answered within ${timeoutMs / 1000} seconds`;
  const code = "code" in error ? String(error.code) : "";
  return code === "ECONNREFUSED" ? "was refused" : `failed: ${error.message}`;
}
