// The settings of an app that say what its replicas need from a machine: hardware, engine, network
// and sandbox. They decide whether a replica could ever start here. Pure.
import type { Advised } from "@slipway/contract/advice.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { ResolvedSettings } from "./settings.ts";

const hardwareFields = [
  "compute",
  "gpuCount",
  "cpu",
  "memory",
  "provider",
  "region",
  "computeTier",
  "containerRuntime",
  "egressCidrs",
  "storagePath",
] as const;

/** What an app asks for; absent: not known yet. */
export type HardwareWish = Partial<Pick<AppSettings, (typeof hardwareFields)[number]>>;

/**
 * Returns a sentence that says why no replica with these settings could ever start here; null when
 * one could. `advised` is who reads the sentence: it tells that person what to do.
 */
export type WhyNever = (wanted: HardwareWish, advised: Advised) => string | null;

/** True when one of the fields is a hardware field. */
export function hasHardware(fields: readonly string[]): boolean {
  return fields.some((field) => hardwareFields.some((known) => known === field));
}

/** The hardware fields that are set so far; the repository's file may still set others. */
export function givenHardware({
  settings,
  origins,
}: Pick<ResolvedSettings, "settings" | "origins">): HardwareWish {
  const fields = hardwareFields.filter((field) => origins[field] !== "default");
  return Object.fromEntries(fields.map((field) => [field, settings[field]]));
}
