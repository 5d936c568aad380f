// The allowed values of app settings that code outside the table of fields uses too.

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

/** The levels of logs, from the fewest lines to the most. */
export const logLevels = ["ERROR", "INFO", "DEBUG", "INTERNAL"] as const;
export type LogLevel = (typeof logLevels)[number];

export const scalingMetrics = [
  "cpu_utilization",
  "memory_utilization",
  "requests_per_second",
  "concurrency_utilization",
] as const;
export type ScalingMetric = (typeof scalingMetrics)[number];
