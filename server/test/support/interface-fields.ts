// The fields of a create request as the published interface has them: typed from its table, not taken from ours, so that
// the two can differ.

/** Fields that a value of the field needs beside it. */
type Within = Readonly<Record<string, unknown>>;

/** Both ends belong to the range; null: the interface names none. */
type Range = { readonly least: number | null; readonly most: number | null; readonly within?: Within };

const custom = { runtime: "custom", entrypoint: ["python", "server.py"] };

/** Numbers and their ranges. */
export const ranges: Readonly<Record<string, Range>> = {
  cooldownPeriodSeconds: { least: 0, most: 3600 },
  cpu: { least: 0.25, most: 192 },
  deploymentInitializationTimeout: { least: 60, most: 830 },
  evaluationIntervalSeconds: { least: 6, most: 300 },
  gpuCount: { least: 0, most: 16 },
  maxReplicaCount: { least: 1, most: 2000 },
  memory: { least: 0.05, most: 1984 },
  minReplicaCount: { least: 0, most: 2000, within: { maxReplicaCount: 2000 } },
  port: { least: 0, most: 65535, within: custom },
  responseGracePeriodSeconds: { least: 16, most: 43200 },
  rollOutDurationSeconds: { least: 0, most: 21600 },
  scalingBuffer: { least: 0, most: null },
};

/** Choices and all their values. */
export const choices: Readonly<Record<string, { readonly values: readonly unknown[]; readonly within?: Within }>> = {
  compute: {
    values: [
      ...["ADA_L4", "ADA_L40", "AMPERE_A10", "AMPERE_A100_40GB", "AMPERE_A100_80GB", "HOPPER_H100", "HOPPER_H200"],
      ...["BLACKWELL_B200", "BLACKWELL_RTX6000", "CPU", "INF2", "TRN1", "TURING_T4"],
      ["ADA_L4", "ADA_L40", "AMPERE_A10", "AMPERE_A100_40GB", "AMPERE_A100_80GB"],
    ],
  },
  computeTier: { values: ["interruptible", "protected"] },
  containerRuntime: { values: ["v1", "v2"] },
  loadBalancingAlgorithm: { values: ["round-robin", "first-available", "min-connections", "random-choice-2"] },
  logLevel: { values: ["INFO", "DEBUG", "INTERNAL", "ERROR"] },
  runtime: { values: ["cortex"] },
  scalingMetric: {
    values: ["cpu_utilization", "memory_utilization", "requests_per_second", "concurrency_utilization"],
    within: { minReplicaCount: 1 },
  },
  disableAuth: { values: [true, false] },
  gitAutoDeploy: { values: [true, false] },
  partialUpload: { values: [true, false] },
  useUv: { values: [true, false] },
};

/** Values that the interface's own words exclude. */
export const refusedValues: Readonly<Record<string, readonly unknown[]>> = {
  name: ["ab", "a".repeat(31), "Upper", "under_score", "dot.ted", 7],
  gitRepo: ["no-slash", "https://example.com/a/b", "a/b/c", 7],
  compute: [["ADA_L4", "ADA_L40", "AMPERE_A10", "AMPERE_A100_40GB", "AMPERE_A100_80GB", "HOPPER_H100"], []],
  scalingTarget: [0, -1],
  replicaConcurrency: [0],
  entrypoint: ["python server.py", [7]],
};
