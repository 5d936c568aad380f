// Finds what an app's settings ask for that the driver does not support, and says what to do
// instead. Called when a build is planned; the build's log shows the findings. Pure.
import { changeField } from "@slipway/contract/advice.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { BuildPlan } from "#drivers/builder.ts";
import { whyNoRuntime } from "#drivers/container-runtimes.ts";
import type { Capabilities, Driver } from "#drivers/driver.ts";
import { imageDriver } from "#drivers/driver-table.ts";
import { egressRefusal } from "#drivers/egress.ts";
import { storagePathRefusal } from "#drivers/storage.ts";
import { sharedWarnings, whyNever } from "#drivers/pools/fit.ts";
import type { Pool } from "#drivers/pools/pool.ts";

export type CapabilityFindings = {
  /** A sentence when the app cannot be built here at all. */
  readonly refusal: string | null;
  readonly warnings: readonly string[];
};

/** The default of the setting `baseImage`, which every driver accepts. */
const defaultBaseImage = "debian:bookworm-slim";
const otherDriverDoes = `the ${imageDriver} driver does (SLIPWAY_DRIVER=${imageDriver})`;

/** What an app wants, and what the driver of this platform can do. */
export type WantedOfDriver = {
  readonly settings: AppSettings;
  /** The app has credentials for registries. */
  readonly hasDockerAuth: boolean;
  readonly capabilities: Capabilities;
  readonly pools: readonly Pool[];
  readonly driver: Driver["name"];
};

/** Compares the app's settings with the driver's capabilities. */
export function checkCapabilities(
  wanted: WantedOfDriver & Pick<BuildPlan, "aptPackages" | "condaPackages">,
): CapabilityFindings {
  const { settings, capabilities, pools, driver, aptPackages, condaPackages } = wanted;
  const warnings = sharedWarnings(pools, settings);
  const missing =
    whyNever(pools, settings) ??
    whyNoRuntime(capabilities.containerRuntimes, settings.containerRuntime) ??
    egressRefusal(capabilities.egress, settings.egressCidrs) ??
    storagePathRefusal(capabilities, settings);
  if (missing !== null) return { warnings, refusal: missing };
  if (settings.dockerfilePath !== null && !capabilities.dockerfile) {
    return {
      warnings,
      refusal: `dockerfilePath is ${settings.dockerfilePath}, but the ${driver} driver does not build Dockerfiles; ${otherDriverDoes}. Ask the operator to switch to it, or remove dockerfilePath and set the app's packages and entrypoint instead.`,
    };
  }
  if (settings.baseImage !== defaultBaseImage && !capabilities.baseImage) {
    warnings.push(
      `baseImage is ${settings.baseImage}, but the ${driver} driver runs apps on the machine itself and does not use images; ${otherDriverDoes}. Until the operator switches to it, whatever the app needs from its image must be installed on the machine.`,
    );
  }
  if (wanted.hasDockerAuth && !capabilities.baseImage) {
    warnings.push(
      `dockerAuth is set, which has no effect with the ${driver} driver: it pulls no images; ${otherDriverDoes}. It stays stored, encrypted, until it is set to null (${changeField}).`,
    );
  }
  if (aptPackages.length > 0 && !capabilities.aptPackages) {
    warnings.push(
      `the ${driver} driver does not install system packages (${shortList(aptPackages)}); ${otherDriverDoes}. The packages of the machine are used: install them there, or ask the operator to switch to that driver.`,
    );
  }
  if (condaPackages.length > 0 && !capabilities.condaPackages) {
    warnings.push(
      `the ${driver} driver does not install conda packages (${shortList(condaPackages)}); ${otherDriverDoes}. Ask the operator to switch to it, or list them under dependencies.pip if pip has them.`,
    );
  }
  if (settings.containerRuntime !== null && capabilities.containerRuntimes === null) {
    warnings.push(
      `containerRuntime is ${settings.containerRuntime}, which has no effect with the ${driver} driver: all its replicas have the same kind of sandbox. The ${imageDriver} driver has runtimes to choose from (SLIPWAY_DRIVER=${imageDriver}).`,
    );
  }
  if (!capabilities.memoryLimit || !capabilities.cpuLimit) {
    const kinds = [
      capabilities.cpuLimit ? "" : "cpu",
      capabilities.memoryLimit ? "" : "memory",
    ].filter(Boolean);
    warnings.push(
      `the ${driver} driver does not enforce ${kinds.join(" and ")} of replicas here: leave room for them on the machine, or ask the operator to give the platform cgroups (docs/guides/isolation.md).`,
    );
  }
  return { refusal: null, warnings };
}

/** Names the first six, and counts the others. */
function shortList(names: readonly string[]): string {
  return names.length > 6
    ? `${names.slice(0, 6).join(", ")} and ${names.length - 6} more`
    : names.join(", ");
}
