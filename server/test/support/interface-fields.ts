// The fields of a create request as the published interface documents them, typed by hand and not
// derived from our table, so that a test can compare both.

/** Other fields that a value of the field requires. */
type Within = Readonly<Record<string, unknown>>;

/** Inclusive bounds; null: the interface defines none. */
type Range = { readonly min: number | null; readonly max: number | null; readonly within?: Within };

const custom = { runtime: "custom", entrypoint: ["python", "server.py"] };

/** Numeric fields and their ranges. */
export const ranges: Readonly<Record<string, Range>> = {
  cooldownPeriodSeconds: { min: 0, max: 3600 },
  cpu: { min: 0.25, max: 192 },
  deploymentInitializationTimeout: { min: 60, max: 830 },
  evaluationIntervalSeconds: { min: 6, max: 300 },
  gpuCount: { min: 0, max: 16 },
  maxReplicaCount: { min: 1, max: 2000 },
  memory: { min: 0.05, max: 1984 },
  minReplicaCount: { min: 0, max: 2000, within: { maxReplicaCount: 2000 } },
  port: { min: 0, max: 65535, within: custom },
  responseGracePeriodSeconds: { min: 16, max: 43200 },
  rollOutDurationSeconds: { min: 0, max: 21600 },
  scalingBuffer: { min: 0, max: null },
};

/** Enumerated fields and all their values. */
export const choices: Readonly<
  Record<string, { readonly values: readonly unknown[]; readonly within?: Within }>
> = {
  compute: {
    values: [
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
      ["ADA_L4", "ADA_L40", "AMPERE_A10", "AMPERE_A100_40GB", "AMPERE_A100_80GB"],
    ],
  },
  computeTier: { values: ["interruptible", "protected"] },
  containerRuntime: { values: ["v1", "v2"] },
  loadBalancingAlgorithm: {
    values: ["round-robin", "first-available", "min-connections", "random-choice-2"],
  },
  logLevel: { values: ["INFO", "DEBUG", "INTERNAL", "ERROR"] },
  runtime: { values: ["cortex"] },
  scalingMetric: {
    values: [
      "cpu_utilization",
      "memory_utilization",
      "requests_per_second",
      "concurrency_utilization",
    ],
    within: { minReplicaCount: 1 },
  },
  disableAuth: { values: [true, false] },
  gitAutoDeploy: { values: [true, false] },
  partialUpload: { values: [true, false] },
  useUv: { values: [true, false] },
};

/** Values that the interface documents as invalid. */
export const refusedValues: Readonly<Record<string, readonly unknown[]>> = {
  name: ["ab", "a".repeat(31), "Upper", "under_score", "dot.ted", 7],
  gitRepo: ["no-slash", "https://example.com/a/b", "a/../c", 7],
  compute: [
    ["ADA_L4", "ADA_L40", "AMPERE_A10", "AMPERE_A100_40GB", "AMPERE_A100_80GB", "HOPPER_H100"],
    [],
  ],
  scalingTarget: [0, -1],
  replicaConcurrency: [0],
  entrypoint: ["python server.py", [7]],
};
