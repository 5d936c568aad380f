// Reports in the build log, before work begins, what an app asks for and the driver does not support, and what to do
// instead. Pure.
import { computeRefusal } from "@slipway/contract/advice.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Capabilities, Driver } from "#drivers/driver.ts";

export type CapabilityFindings = {
  /** A sentence when the app cannot be built here at all. */
  readonly refusal: string | null;
  readonly warnings: readonly string[];
};

/** The default image of apps; asking for it needs no support. */
const defaultBaseImage = "debian:bookworm-slim";

/** Compares the app's settings with the driver's capabilities. */
export function checkCapabilities(given: {
  readonly settings: AppSettings;
  readonly aptPackages: readonly string[];
  readonly condaPackages: readonly string[];
  readonly capabilities: Capabilities;
  readonly driver: Driver["name"];
}): CapabilityFindings {
  const { settings, capabilities, driver, aptPackages, condaPackages } = given;
  const warnings: string[] = [];
  const missing = computeRefusal(settings.compute, capabilities.compute);
  if (missing !== null) return { warnings, refusal: missing };
  if (settings.dockerfilePath !== null && !capabilities.dockerfile) {
    return {
      warnings,
      refusal: `The app is built from a Dockerfile (${settings.dockerfilePath}), which the ${driver} driver cannot do, and this version has no driver that can. Leave dockerfilePath out, and name the app's packages and entrypoint instead.`,
    };
  }
  if (settings.baseImage !== defaultBaseImage && !capabilities.baseImage) {
    warnings.push(
      `baseImage is ${settings.baseImage}, but the ${driver} driver runs apps on the machine itself, and this version has no driver that uses images. Whatever the app needs from its image must be installed on the machine.`,
    );
  }
  if (aptPackages.length > 0 && !capabilities.aptPackages) {
    warnings.push(
      `the ${driver} driver does not install system packages (${shortList(aptPackages)}), and this version has no driver that does. The packages of the machine are used: install them there.`,
    );
  }
  if (condaPackages.length > 0 && !capabilities.condaPackages) {
    warnings.push(
      `the ${driver} driver does not install conda packages (${shortList(condaPackages)}), and this version has no driver that does. List them under dependencies.pip if pip has them.`,
    );
  }
  if (!capabilities.memoryLimit || !capabilities.cpuLimit) {
    const kinds = [capabilities.cpuLimit ? "" : "cpu", capabilities.memoryLimit ? "" : "memory"].filter(Boolean);
    warnings.push(
      `the ${driver} driver does not enforce ${kinds.join(" and ")} of replicas here: leave room for them on the machine, or ask the operator to give the platform cgroups (docs/guides/isolation.md).`,
    );
  }
  return { refusal: null, warnings };
}

function shortList(names: readonly string[]): string {
  return names.length > 6 ? `${names.slice(0, 6).join(", ")} and ${names.length - 6} more` : names.join(", ");
}
