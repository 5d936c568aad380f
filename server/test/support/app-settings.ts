// Settings of apps for tests: the defaults of the interface, with changes.
import type { AppSettings } from "@slipway/contract/app-settings.ts";

const defaults: AppSettings = {
  name: "example",
  cliVersion: null,
  gitRepo: "owner/repo",
  gitBranch: "main",
  gitPath: "",
  gitAutoDeploy: true,
  partialUpload: false,
  runtime: "cortex",
  pythonVersion: "3.12",
  baseImage: "debian:bookworm-slim",
  dockerfilePath: null,
  entrypoint: [],
  port: 8000,
  healthcheckEndpoint: "",
  readycheckEndpoint: "",
  useUv: false,
  preBuildCommands: [],
  shellCommands: [],
  dependencies: { pip: {}, apt: {}, conda: {}, paths: {} },
  compute: ["CPU"],
  computeTier: "interruptible",
  containerRuntime: null,
  cpu: 1,
  memory: 1,
  gpuCount: 0,
  provider: null,
  region: null,
  minReplicaCount: 0,
  maxReplicaCount: 1,
  cooldownPeriodSeconds: 10,
  replicaConcurrency: 1,
  responseGracePeriodSeconds: 900,
  scalingMetric: "concurrency_utilization",
  scalingTarget: 100,
  scalingBuffer: 0,
  evaluationIntervalSeconds: 30,
  loadBalancingAlgorithm: "first-available",
  rollOutDurationSeconds: 0,
  deploymentInitializationTimeout: 60,
  disableAuth: false,
  logLevel: "INFO",
};

/** The defaults with changes. */
export function settingsWith(changes: Partial<AppSettings>): AppSettings {
  return { ...defaults, ...changes };
}
