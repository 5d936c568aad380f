// The settings for serving metrics, read for config.ts.
import { isLoopback } from "#lib/client-address.ts";
import { Secret } from "#lib/secret.ts";
import type { SettingReader } from "./config-table.ts";

/**
 * Where metrics are served. `token` null: anyone who reaches the address may read them, so the
 * address must be on this machine.
 */
export type MetricsConfig = {
  readonly host: string;
  readonly port: number;
  readonly token: Secret | null;
};

/** The highest port of TCP. */
const portMax = 65_535;

/** Reads the settings; null: metrics are not served. */
export function readMetrics(reader: SettingReader): MetricsConfig | null {
  const address = reader.text("SLIPWAY_METRICS_ADDRESS");
  const token = reader.text("SLIPWAY_METRICS_TOKEN");
  if (address === null && token === null) return null;
  if (address === null)
    return reader.refuse(
      "SLIPWAY_METRICS_TOKEN is set, but SLIPWAY_METRICS_ADDRESS is not: set it to where metrics are to be served, such as 127.0.0.1:9464, or leave the token out.",
    );
  // An IPv6 address in brackets, or another host; then a port.
  const [, host = "", port = ""] = /^(\[[^\]]+\]|[^\s:/[\]]+):(\d{1,5})$/.exec(address) ?? [];
  if (host === "" || Number(port) > portMax) {
    const allowed = `an address and a port up to ${portMax}, such as 127.0.0.1:9464 or [::1]:9464`;
    return reader.refuse(`SLIPWAY_METRICS_ADDRESS is "${address}", but must be ${allowed}.`);
  }
  // These are the characters that a bearer token may have.
  if (token !== null && !/^[A-Za-z0-9\-._~+/=]{16,}$/.test(token)) {
    const allowed = "at least 16 letters, digits and -._~+/=";
    return reader.refuse(`SLIPWAY_METRICS_TOKEN must be ${allowed} (its value is not shown).`);
  }
  const plainHost = host.replace(/^\[|\]$/g, "");
  if (token === null && !isLoopback(plainHost)) {
    const problem =
      "is reachable from other machines: set SLIPWAY_METRICS_TOKEN too, or use 127.0.0.1";
    return reader.refuse(`SLIPWAY_METRICS_ADDRESS is "${address}", which ${problem}.`);
  }
  return { host: plainHost, port: Number(port), token: token === null ? null : new Secret(token) };
}
