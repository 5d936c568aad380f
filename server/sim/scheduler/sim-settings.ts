// Settings of simulated apps: what scaling depends on is drawn, the rest is as the defaults have
// it.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import type { Seeded } from "#test/support/seeded.ts";

/** Random settings within what the interface allows. */
export function appSettings(seeded: Seeded): AppSettings {
  const maxReplicaCount = seeded.integer(1, 4);
  return settingsWith({
    runtime: seeded.chance(0.5) ? "cortex" : "custom",
    minReplicaCount: seeded.chance(0.7) ? 0 : seeded.integer(1, maxReplicaCount),
    maxReplicaCount,
    cooldownPeriodSeconds: seeded.pick([0, 1, 10, 20]),
    replicaConcurrency: seeded.integer(1, 3),
    responseGracePeriodSeconds: seeded.pick([16, 40]),
    scalingMetric: seeded.chance(0.7) ? "concurrency_utilization" : "requests_per_second",
    scalingTarget: seeded.pick([50, 100]),
    scalingBuffer: seeded.chance(0.8) ? 0 : 1,
    evaluationIntervalSeconds: seeded.pick([6, 30]),
    readycheckEndpoint: seeded.chance(0.5) ? "" : "/ready",
  });
}
