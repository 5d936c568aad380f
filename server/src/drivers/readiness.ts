// What a replica of each runtime is asked to find out whether it takes calls.
import type { ReplicaSpec } from "./driver.ts";

/** Paths, or `""` for a TCP connect. `health` null: once it is ready nothing more is asked. */
export type ReplicaChecks = { readonly ready: string; readonly health: string | null };

/** The cortex runtime answers for itself; a busy app may keep it from doing so for long, so its end is what counts. */
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
