// The OCI runtimes for the values of an app's field containerRuntime, and why one cannot be used.
// Pure.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { howToChange, type Advised } from "@slipway/contract/advice.ts";

/** The runtimes that the settings name for v1 and v2, and all that the engine has. */
export type ContainerRuntimes = {
  readonly v1: string;
  readonly v2: string;
  readonly present: readonly string[];
};

/** A value of the field; null: the engine's default. */
export type ContainerRuntime = AppSettings["containerRuntime"];

/**
 * Why no replica can start whose app has this value of the field, in a sentence; null when it can.
 * `runtimes` is null for a driver that lets nobody choose, so that the field has no effect.
 */
export function whyNoRuntime(
  runtimes: ContainerRuntimes | null,
  version: ContainerRuntime | undefined,
  advised: Advised = "owner",
): string | null {
  if (runtimes === null || version === null || version === undefined) return null;
  const name = runtimes[version];
  if (runtimes.present.includes(name)) return null;
  const setting = `SLIPWAY_RUNTIME_${version.toUpperCase()}`;
  return `containerRuntime is ${version}, which means the runtime ${name} here (${setting}), but the Docker engine does not have it, only ${runtimes.present.join(", ")}. Use another value or none${howToChange(advised)}, or let the operator add ${name} to the engine.`;
}
