// Measures the use of containers with the engine's statistics.
import type { ContainerStats } from "dockerode";
import type { ReplicaUsage } from "#drivers/driver.ts";
import { unlessStatus, type Engine } from "./engine.ts";

/** Returns the usage of each container that runs, by the key that it has in `containers`. */
export async function measureContainers<Key>(
  engine: Engine,
  containers: ReadonlyMap<Key, string>,
): Promise<Map<Key, ReplicaUsage>> {
  const usage = new Map<Key, ReplicaUsage>();
  await Promise.all(
    [...containers].map(async ([key, containerId]) => {
      // `one-shot`: the engine measures once, without waiting for a second measurement.
      const options = { stream: false, "one-shot": true } as const;
      // 404 and 409: the container is gone.
      const stats = await unlessStatus(
        [404, 409],
        engine.calls.getContainer(containerId).stats(options),
      );
      // A container that has just exited has no statistics.
      if (stats?.memory_stats.usage !== undefined) usage.set(key, usageIn(stats));
    }),
  );
  return usage;
}

function usageIn({ cpu_stats, memory_stats, networks }: ContainerStats): ReplicaUsage {
  const { usage, stats } = memory_stats;
  // Cached files that the kernel can drop, as cgroup v1 and then v2 name them; 0 without either.
  const reclaimable = stats.total_inactive_file ?? stats.inactive_file ?? 0;
  // The type does not say that a container without a network has no `networks`.
  const counters = Object.values((networks as ContainerStats["networks"] | undefined) ?? {});
  return {
    // The engine counts nanoseconds.
    cpuSeconds: cpu_stats.cpu_usage.total_usage / 1e9,
    memoryBytes: Math.max(0, usage - reclaimable),
    network: {
      receivedBytes: counters.reduce((sum, { rx_bytes }) => sum + rx_bytes, 0),
      sentBytes: counters.reduce((sum, { tx_bytes }) => sum + tx_bytes, 0),
    },
  };
}
