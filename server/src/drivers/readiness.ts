// Chooses the readiness and health checks of a replica by its runtime.
import type { ReplicaSpec } from "./driver.ts";

/** The paths of the checks; `""` is a TCP connect. `health` null: no checks once it is ready. */
export type ReplicaChecks = { readonly ready: string; readonly health: string | null };

/**
 * The cortex runtime answers the readiness check itself, as soon as the app is imported. It has no
 * health check, since a busy app may block the runtime for long: only its exit counts.
 */
const cortexChecks: ReplicaChecks = { ready: "/_slipway/ready", health: null };

/** Returns the checks of a replica with these settings. */
export function checksOf(settings: {
  readonly runtime: ReplicaSpec["runtime"];
  readonly readycheckEndpoint: string;
  readonly healthcheckEndpoint: string;
}): ReplicaChecks {
  if (settings.runtime === "cortex") return cortexChecks;
  return { ready: settings.readycheckEndpoint, health: settings.healthcheckEndpoint };
}
