// The settings of an app as the platform uses them once request body, TOML and defaults have been merged. They are
// stored with the build, so that a rebuild gives the same app. Field names are those of the published interface.

export const computeTypes = [
  "ADA_L4",
  "ADA_L40",
  "AMPERE_A10",
  "AMPERE_A100_40GB",
  "AMPERE_A100_80GB",
  "HOPPER_H100",
  "HOPPER_H200",
  "BLACKWELL_B200",
  "BLACKWELL_RTX6000",
  "CPU",
  "INF2",
  "TRN1",
  "TURING_T4",
] as const;
export type ComputeType = (typeof computeTypes)[number];

export const loadBalancingAlgorithms = [
  "round-robin",
  "first-available",
  "min-connections",
  "random-choice-2",
] as const;
export type LoadBalancingAlgorithm = (typeof loadBalancingAlgorithms)[number];

export const scalingMetrics = [
  "cpu_utilization",
  "memory_utilization",
  "requests_per_second",
  "concurrency_utilization",
] as const;
export type ScalingMetric = (typeof scalingMetrics)[number];

/** Package name → version as written in the TOML tables. */
export type PackageVersions = Readonly<Record<string, string>>;

/** What the TOML tables under `dependencies` ask for: packages inline, or files in the repository that list them. */
export type Dependencies = {
  readonly pip: PackageVersions;
  readonly apt: PackageVersions;
  readonly conda: PackageVersions;
  readonly paths: { readonly pip?: string; readonly apt?: string; readonly conda?: string };
};

/** Everything that decides how an app is built, run and scaled. Times in seconds, memory in GB (10^9 bytes), cpu in cores. */
export type AppSettings = {
  readonly name: string;
  readonly cliVersion: string | null;
  /** `owner/repo`. */
  readonly gitRepo: string;
  readonly gitBranch: string;
  /** Folder of the app in the repository, relative, `""` for its root. */
  readonly gitPath: string;
  readonly gitAutoDeploy: boolean;
  readonly partialUpload: boolean;
  readonly runtime: "cortex" | "custom";
  readonly pythonVersion: string;
  readonly baseImage: string;
  readonly dockerfilePath: string | null;
  /** Start command of a custom app, already split into arguments; empty for cortex. */
  readonly entrypoint: readonly string[];
  readonly port: number;
  /** `""` stands for a TCP connect. */
  readonly healthcheckEndpoint: string;
  /** `""` stands for a TCP connect. */
  readonly readycheckEndpoint: string;
  readonly useUv: boolean;
  readonly preBuildCommands: readonly string[];
  readonly shellCommands: readonly string[];
  readonly dependencies: Dependencies;
  /** In priority order, one to five. */
  readonly compute: readonly ComputeType[];
  readonly computeTier: "interruptible" | "protected";
  readonly containerRuntime: "v1" | "v2" | null;
  readonly cpu: number;
  readonly memory: number;
  readonly gpuCount: number;
  readonly provider: string | null;
  readonly region: string | null;
  readonly minReplicaCount: number;
  readonly maxReplicaCount: number;
  readonly cooldownPeriodSeconds: number;
  readonly replicaConcurrency: number;
  readonly responseGracePeriodSeconds: number;
  /** Of async runs, after the first attempt. Absent in releases from before there were any. */
  readonly retries?: number;
  readonly scalingMetric: ScalingMetric;
  readonly scalingTarget: number;
  readonly scalingBuffer: number;
  readonly evaluationIntervalSeconds: number;
  readonly loadBalancingAlgorithm: LoadBalancingAlgorithm;
  readonly rollOutDurationSeconds: number;
  readonly deploymentInitializationTimeout: number;
  readonly disableAuth: boolean;
  readonly logLevel: "INFO" | "DEBUG" | "INTERNAL" | "ERROR";
};
