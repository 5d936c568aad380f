// The readiness and health checks of a replica, by runtime.
import type { ReplicaSpec } from "./driver.ts";

/** Paths, or `""` for a TCP connect. `health` null: no checks after it is ready. */
export type ReplicaChecks = { readonly ready: string; readonly health: string | null };

/**
 * The cortex runtime answers the check itself, at the moment when the app is imported. A busy app
 * may block it for long, so only its exit counts.
 */
const cortexChecks: ReplicaChecks = { ready: "/_slipway/ready", health: null };

/** The checks of a replica with these settings. */
export function checksOf(settings: {
  readonly runtime: ReplicaSpec["runtime"];
  readonly readycheckEndpoint: string;
  readonly healthcheckEndpoint: string;
}): ReplicaChecks {
  if (settings.runtime === "cortex") return cortexChecks;
  return { ready: settings.readycheckEndpoint, health: settings.healthcheckEndpoint };
}
