// Rules across the fields of an app. A rule that compares two values waits until both are known: a
// field missing in the request may be in the repository's TOML file. If the request triggers a rule
// that requires another setting, the request itself must contain that setting.
import type { FieldName } from "@slipway/contract/app-fields.ts";
import type { ComputeType } from "@slipway/contract/app-choices.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { shown } from "./refusal.ts";

/** A value and its source: a field of the body, or a path in a TOML file. */
export type GivenSetting = {
  readonly value: unknown;
  /** The field or the path, as sentences name it. */
  readonly path: string;
  /** True for a field of the body. */
  readonly isBody: boolean;
};

export type RulesContext = {
  /** The value of a field with its source; undefined: no source has the field. */
  readonly source: (field: FieldName) => GivenSetting | undefined;
  /**
   * True once the repository has been read: a field that is still missing then gets its default.
   */
  readonly isComplete: boolean;
};

type CheckedSettings = { readonly settings: AppSettings; readonly warnings: readonly string[] };

/**
 * Checks the rules; returns the settings with harmless contradictions corrected. Throws
 * `Fault("invalid")`.
 */
export function checkRules(settings: AppSettings, context: RulesContext): CheckedSettings {
  checkReplicas(settings, context);
  checkScaling(settings, context);
  checkFamily(settings.compute);
  checkCors(settings, context);
  const gpu = checkGpuCount(settings, context);
  const runtime = checkRuntime(gpu.settings, context);
  return { settings: runtime.settings, warnings: [...gpu.warnings, ...runtime.warnings] };
}

function checkReplicas(settings: AppSettings, { source, isComplete }: RulesContext): void {
  const max = source("maxReplicaCount");
  // The repository's file may still set a higher maximum.
  const mayRise = max === undefined && !isComplete;
  if (settings.minReplicaCount <= settings.maxReplicaCount || mayRise) return;
  const path = source("minReplicaCount")?.path ?? "minReplicaCount";
  const limit = `${max?.path ?? "maxReplicaCount"}, which is ${settings.maxReplicaCount}`;
  const byDefault = max === undefined ? " by default" : "";
  throw new Fault(
    "invalid",
    `${path} is ${settings.minReplicaCount}, but must not be above ${limit}${byDefault}.`,
  );
}

function checkScaling(settings: AppSettings, { source, isComplete }: RulesContext): void {
  const metric = settings.scalingMetric;
  const metricPath = source("scalingMetric")?.path ?? "scalingMetric";
  const targetPath = source("scalingTarget")?.path ?? "scalingTarget";
  const isMetricKnown = isComplete || source("scalingMetric") !== undefined;
  if (metric !== "requests_per_second" && isMetricKnown && settings.scalingTarget > 100) {
    throw new Fault(
      "invalid",
      `${targetPath} is ${settings.scalingTarget}, but must be a percentage of at most 100 for the metric ${metric}.`,
    );
  }
  // Neither of these two metrics is the default, so the metric has been set somewhere. Whoever sets
  // it must also set the minimum.
  if (metric !== "cpu_utilization" && metric !== "memory_utilization") return;
  if (settings.minReplicaCount < 1) {
    throw new Fault(
      "invalid",
      `${metricPath} is ${metric}, which must be measured on a running replica: minReplicaCount is ${settings.minReplicaCount}, but must be at least 1.`,
    );
  }
  if (settings.scalingBuffer > 0) {
    const path = source("scalingBuffer")?.path ?? "scalingBuffer";
    throw new Fault(
      "invalid",
      `${path} is ${settings.scalingBuffer}, but must be 0 for the metric ${metric}: a buffer works only with concurrency_utilization and requests_per_second.`,
    );
  }
}

/**
 * Refuses cookies for all origins: any page on the internet could act with the cookies of its
 * viewer. Browsers refuse the pair, too.
 */
function checkCors({ corsOrigins, corsCredentials }: AppSettings, { source }: RulesContext): void {
  if (!corsCredentials || !corsOrigins.includes("*")) return;
  const path = source("corsCredentials")?.path ?? "corsCredentials";
  const origins = source("corsOrigins")?.path ?? "corsOrigins";
  throw new Fault(
    "invalid",
    `${path} is true, but ${origins} has "*": name the origins that may send cookies.`,
  );
}

type Family = "CPU" | "AWS accelerators" | "NVIDIA GPUs";

function familyOf(type: ComputeType): Family {
  if (type === "CPU") return "CPU";
  return type === "INF2" || type === "TRN1" ? "AWS accelerators" : "NVIDIA GPUs";
}

function checkFamily(compute: readonly ComputeType[]): void {
  const families = new Set(compute.map(familyOf));
  if (families.size < 2) return;
  throw new Fault(
    "invalid",
    `compute is ${shown(compute)}, but must name types of one family: it mixes ${[...families].join(" and ")}.`,
  );
}

function checkGpuCount(settings: AppSettings, { source }: RulesContext): CheckedSettings {
  const gpuCount = source("gpuCount");
  // All types are of one family, as `checkFamily` requires.
  const isCpu = settings.compute[0] === "CPU";
  if (isCpu && settings.gpuCount > 0) {
    const warning = `${gpuCount?.path ?? "gpuCount"} is ${settings.gpuCount} and has no effect: the app runs on CPU.`;
    return { settings: { ...settings, gpuCount: 0 }, warnings: [warning] };
  }
  if (!isCpu && settings.gpuCount === 0) {
    throw new Fault(
      "invalid",
      `${gpuCount?.path ?? "gpuCount"} is 0, but must be 1 to 16 for compute ${settings.compute.join(", ")}; leave it out for 1.`,
    );
  }
  return { settings, warnings: [] };
}

function checkRuntime(settings: AppSettings, context: RulesContext): CheckedSettings {
  return settings.runtime === "custom"
    ? checkCustom(settings, context)
    : checkCortex(settings, context);
}

/** Checks an app that brings its own server. */
function checkCustom(settings: AppSettings, { source }: RulesContext): CheckedSettings {
  if (settings.entrypoint.length === 0 && settings.dockerfilePath === null) {
    // A path other than "runtime" is that of a table or a Dockerfile, which means "custom".
    const path = source("runtime")?.path ?? "runtime";
    const given = path === "runtime" ? 'runtime is "custom"' : path;
    throw new Fault(
      "invalid",
      `${given}, but neither entrypoint nor dockerfilePath is given: one of them must say how the app starts.`,
    );
  }
  return {
    settings,
    warnings: settings.dockerfilePath === null ? [] : ignoredWithDockerfile(settings),
  };
}

function ignoredWithDockerfile(settings: AppSettings): string[] {
  const { pip, apt, conda, paths } = settings.dependencies;
  const hasPackages = [pip, apt, conda, paths].some((table) => Object.keys(table).length > 0);
  const hasCommands = settings.preBuildCommands.length + settings.shellCommands.length > 0;
  const packagesEffect =
    "the dependency tables have an effect only if the Dockerfile copies requirements.txt, pkglist.txt or conda_pkglist.txt";
  const effects = [
    ...(hasCommands ? ["the build commands have no effect"] : []),
    ...(hasPackages ? [packagesEffect] : []),
  ];
  return effects.length === 0
    ? []
    : [`dockerfilePath is ${settings.dockerfilePath}, so ${effects.join(", and ")}.`];
}

/** The settings that have an effect only if an app brings its own server. */
const customOnly = [
  "entrypoint",
  "dockerfilePath",
  "healthcheckEndpoint",
  "readycheckEndpoint",
  "keepPathPrefix",
] as const;

/** Checks an app that the platform serves: settings for apps with their own server are removed. */
function checkCortex(settings: AppSettings, { source, isComplete }: RulesContext): CheckedSettings {
  const isRuntimeKnown = isComplete || source("runtime") !== undefined;
  const warnings: string[] = [];
  for (const field of customOnly) {
    const setting = source(field);
    const value = settings[field];
    if (setting === undefined || isUnset(value) || !isRuntimeKnown) continue;
    const isStartCommand = field === "entrypoint" || field === "dockerfilePath";
    if (setting.isBody && isStartCommand) {
      throw new Fault(
        "invalid",
        `${field} is ${shown(value)}, but the runtime is cortex, which starts main.py by itself: send "runtime": "custom", or leave ${field} out.`,
      );
    }
    warnings.push(`${setting.path} has no effect: the runtime is cortex.`);
  }
  if (!isRuntimeKnown) return { settings, warnings };
  const unset = {
    entrypoint: [],
    dockerfilePath: null,
    healthcheckEndpoint: "",
    readycheckEndpoint: "",
    keepPathPrefix: false,
  };
  return { settings: { ...settings, ...unset }, warnings };
}

/** Whether a value says no more than an absent one: null, false, or an empty text or list. */
function isUnset(value: AppSettings[(typeof customOnly)[number]]): boolean {
  if (value === null || typeof value === "boolean") return value !== true;
  return value.length === 0;
}
